/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The things a person or a unit types. Each gets its part of the command line, argv[0] being its name, reads it with
 * verb/options.h, and returns the exit status of the program.
 */

int nb_verb_check(int argc, char **argv);
int nb_verb_explain(int argc, char **argv);
int nb_verb_join(int argc, char **argv);
int nb_verb_refresh(int argc, char **argv);
int nb_verb_reset(int argc, char **argv);
int nb_verb_setup(int argc, char **argv);
int nb_verb_status(int argc, char **argv);
