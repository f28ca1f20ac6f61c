#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzz targets into $OUT, in the source tree, as ClusterFuzzLite runs it: with $CC, $CFLAGS and $WORK. Each has its corpus beside it,
# and the libraries that the image in which it runs does not have. `tests/run fuzz` runs this without their image.
set -eu

mkdir -p "$OUT/lib"
# Not DT_RUNPATH, which does not apply to the libraries that a library needs.
export LDFLAGS="${LDFLAGS:-} -Wl,--disable-new-dtags,-rpath,\$ORIGIN/lib"
meson setup --buildtype=plain -Dfuzz=true -Db_lundef=false "$WORK/fuzz"
meson compile -C "$WORK/fuzz" --ninja-args=--quiet fuzz-targets
for corpus in tests/fuzz/corpus/*; do
        name=fuzz-${corpus##*/}
        cp "$WORK/fuzz/tests/fuzz/$name" "$OUT"
        (cd "$corpus" && python3 -m zipfile -c "$OUT/${name}_seed_corpus.zip" ./*)
        # Not the parts of glibc, which must be of one build with the loader.
        ldd "$WORK/fuzz/tests/fuzz/$name" | sed -n 's/^.* => \(\/.*\) (0x.*/\1/p' | grep -vE '/lib(c|m|dl|rt|pthread|resolv)\.so' | xargs --no-run-if-empty cp -t "$OUT/lib"
done
