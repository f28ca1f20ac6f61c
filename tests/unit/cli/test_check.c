/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "case.h"
#include "cli/check/check_internal.h"
#include "cli/check/rehearsal_unit.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID "abcdef"
#define SECRET "0123456789secret"

struct row {
        const char *name, *token, *expected; /* NULL: refused with `r` */
        int r;
};

static struct row rows[] = {
        { "a bootstrap token shows its public half", ID "." SECRET,
          "bootstrap token abcdef.****************", 0 },
        { "a newline after it is no part of it", ID "." SECRET "\n",
          "bootstrap token abcdef.****************", 0 },
        { "a k3s token of a bootstrap token", "K10" HASH "::" ID "." SECRET,
          "k3s token abcdef.****************, with the hash of a CA", 0 },
        { "a k3s token of user and password", "K10" HASH "::node:" SECRET,
          "k3s token ****************, with the hash of a CA", 0 },
        { "a k3s token without a hash", "K10::" ID "." SECRET,
          "k3s token abcdef.****************, without the hash of a CA", 0 },
        { "a token that is too short", ID ".0123", NULL, -EINVAL },
        { "nothing", "", NULL, -EINVAL },
        { "a damaged k3s token", "K10" HASH ":" ID "." SECRET, NULL, -EINVAL },
};

static void masks(void **state) {
        const struct row *row = *state;
        char text[NB_CHECK_TOKEN_TEXT_SIZE] = "untouched";

        assert_int_equal(nb_check_mask_token(row->token, strlen(row->token), text), row->r);
        assert_string_equal(text, row->expected ? row->expected : "untouched");
        assert_null(strstr(text, SECRET));
}

/* --- The unit of the rehearsal --- */

struct unit_row {
        const char *name, *text, *expected;
};

static struct unit_row unit_rows[] = {
        { "a service section", "[Service]\nA=b\n", "[Service]\nA=b\n\n" },
        { "a byte order mark", "\xef\xbb\xbf[Unit]\nWants=x\n", "[Unit]\n\n" },
        { "conditions and assertions alone of [Unit]",
          "[Unit]\nWants=x.service\nOnFailure=y.service\nConditionHost=|a\nAssertHost=b\n[Install]"
          "\n"
          "WantedBy=z\n[Service]\nA=b\n",
          "[Unit]\nConditionHost=|a\nAssertHost=b\n[Service]\nA=b\n\n" },
        { "other sections", "A=b\n[X-Service]\nA=b\n[Install]\nA=b\n", "\n" },
        { "comments, and blanks around lines",
          "# [Service]\n;A=b\n \t[Service] \r\n  #A=b\n\tA=b \r\n", "[Service]\nA=b\n\n" },
        { "a line that is continued, with a comment inside",
          "[Service]\nA=b \\\n# c \\\n[Unit]\nB=c\n", "[Service]\nA=b \\\n[Unit]\nB=c\n\n" },
        { "two backslashes continue nothing", "[Service]\nA=b\\\\\n[Unit]\nWants=c\n",
          "[Service]\nA=b\\\\\n[Unit]\n\n" },
        { "a line of [Unit] that is continued",
          "[Unit]\nWants=a \\\nConditionHost=b\nConditionHost=c\\\n d\n",
          "[Unit]\nConditionHost=c\\\nd\n\n" },
        { "the end of a file ends a line that is continued", "[Service]\nA=b\\",
          "[Service]\nA=b\\\n\n" },
        { "specifiers of the name", "[Service]\nA=%n %N %p %P %f %j %J x%iy%I\n",
          "[Service]\nA=node-bootstrap.service node-bootstrap node-bootstrap node/bootstrap "
          "/node/bootstrap bootstrap bootstrap xy\n\n" },
        { "other specifiers, and percent signs", "[Service]\nA=%d %%n %%%n 5%\n",
          "[Service]\nA=%d %%n %%node-bootstrap.service 5%\n\n" },
        { "nothing", "", "\n" },
};

static void copies_unit(void **state) {
        const struct unit_row *row = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_REHEARSAL_TEXT_MAX);

        nb_rehearsal_copy(row->text, strlen(row->text), &text);
        assert_int_equal(text.error, 0);
        assert_string_equal(text.data, row->expected);
}

/* What follows it in the file takes effect. */
static void overrides_what_would_change_something(void **state) {
        static const char *const resets[] = {
                "\nExecCondition=\n",  "\nExecStartPre=\n",      "\nExecStart=\n",
                "\nExecStartPost=\n",  "\nExecStop=\n",          "\nExecStopPost=\n",
                "\nStateDirectory=\n", "\nCacheDirectory=\n",    "\nRestart=no\n",
                "\nType=oneshot\n",    "\nRemainAfterExit=no\n", "\nFailureAction=none\n",
        };
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_REHEARSAL_TEXT_MAX);

        nb_rehearsal_override("/run/rows", "/bin/x y", &text);
        for (size_t i = 0; i < N_ELEMENTS(resets); i++)
                assert_non_null(strstr(text.data, resets[i]));
        assert_non_null(strstr(text.data, "\nExecStart=\nExecStartPost="));
        assert_non_null(strstr(text.data, "\nExecStart=!/bin/x y\n"));
        assert_non_null(strstr(text.data, "\nStandardOutput=file:/run/rows\n"));
}

/* A dash would let drop-ins of node-.service.d apply to the rehearsal. */
static void has_name_without_prefix(void **state) {
        assert_null(strchr(NB_REHEARSAL_UNIT, '-'));
}

/* --- Rows from the rehearsal --- */

static uint32_t find_step(const char *id) {
        uint32_t i = 0;

        while (strcmp(nb_check_steps[i].id, id) != 0)
                i++;
        return i;
}

struct frame_row {
        const char *name, *step;
        struct nb_check_frame frame;
        int r;
};

static struct frame_row frame_rows[] = {
        { "frame: of a step", "settings", { .mark = NB_CHECK_GOOD }, 0 },
        { "frame: of the rehearsal itself", "service", { .code = NB_INTERNAL }, 0 },
        { "frame: with a failure", "join", { .code = NB_TOKEN_MISSING }, 0 },
        { "frame: of an unknown step", NULL, { .step = NB_CHECK_STEPS_N }, -EBADMSG },
        { "frame: of a step about the machine", "state", { .mark = NB_CHECK_GOOD }, -EBADMSG },
        { "frame: of the step for user data", "user-data", { .mark = NB_CHECK_GOOD }, -EBADMSG },
        { "frame: with an unknown mark", "join", { .mark = _NB_CHECK_MARK_N }, -EBADMSG },
        { "frame: with an unknown code", "join", { .code = _NB_CODE_N }, -EBADMSG },
        { "frame: with an event", "join", { .code = NB_JOINED }, -EBADMSG },
};

static void verifies_frame(void **state) {
        const struct frame_row *row = *state;
        struct nb_check_frame frame = row->frame;

        if (row->step)
                frame.step = find_step(row->step);
        memset(frame.text, 'x', sizeof(frame.text));
        memcpy(frame.text, "\x1b[2J\n", 5);
        memset(frame.fields[NB_FIELD_CSR], '\n', sizeof(frame.fields[NB_FIELD_CSR]));
        assert_int_equal(nb_check_frame_verify(&frame), row->r);
        if (row->r < 0)
                return;
        assert_int_equal(strlen(frame.text), sizeof(frame.text) - 1);
        assert_memory_equal(frame.text, " [2J x", 6);
        assert_int_equal(strspn(frame.fields[NB_FIELD_CSR], " "), NB_FIELD_SIZE - 1);
}

int main(void) {
        CASES(rows, masks);
        CASES(unit_rows, copies_unit);
        CASES(frame_rows, verifies_frame);
        CASE(overrides_what_would_change_something);
        CASE(has_name_without_prefix);
        return case_run("check");
}
