/* SPDX-License-Identifier: Apache-2.0 */
#include "format/kubelet_env.h"
#include "fuzz.h"

static const struct nb_kubelet_argument kept[] = { { "hostname-override", "fuzzed-node", true } };
static const struct nb_kubelet_argument wanted[] = {
        { "container-runtime-endpoint", "unix:///run/containerd/containerd.sock", false },
        { "hostname-override", "fuzzed-node", false },
        { "register-with-taints", "a=b:NoSchedule", false },
};

/* An edited file needs no second edit, and has every argument. */
void fuzz_one(const char *data, size_t len) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(1024 * 1024),
                                                   again = NB_BUFFER_INIT(1024 * 1024);
        int r;

        r = nb_kubeadm_flags_edit(data, len, kept, N_ELEMENTS(kept), &again);
        FUZZ_CHECK(r <= 1 && (r == 1) == (again.len > 0));
        nb_buffer_clear(&again);
        r = nb_kubeadm_flags_edit(data, len, wanted, N_ELEMENTS(wanted), &text);
        FUZZ_CHECK(r <= 1);
        if (r <= 0) {
                FUZZ_CHECK(text.len == 0);
                return;
        }
        FUZZ_CHECK(text.data[text.len - 1] == '\n');
        FUZZ_CHECK(strstr(text.data, "--hostname-override=fuzzed-node"));
        FUZZ_CHECK(strstr(text.data, "--register-with-taints=a=b:NoSchedule"));
        FUZZ_CHECK(nb_kubeadm_flags_edit(text.data, text.len, wanted, N_ELEMENTS(wanted), &again) == 0);
        FUZZ_CHECK(nb_kubeadm_flags_edit(text.data, text.len, kept, N_ELEMENTS(kept), &again) == 0);
}
