/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "admin/controller/controller.h"
#include "base/encoding.h"
#include "system/clock.h"

#include "answers.h"
#include "make_request.h"

#define CSR "/apis/certificates.k8s.io/v1/certificatesigningrequests/csr"

/* The request of node a for 10.0.0.5. */
static void answer_request(struct nb_exchange *exchange) {
        static const struct made_request made = {
                .attributes = { O, "system:nodes", CN, "system:node:a" },
                .names = { { GNUTLS_SAN_IPADDRESS, "\x0a\0\0\5", 4 } },
        };
        struct nb_buffer encoded = NB_BUFFER_INIT(8192), text = NB_BUFFER_INIT(16384);
        char *pem = make_request(&made);

        nb_base64_encode(pem, strlen(pem), &encoded);
        nb_json_format(&text,
                       "{'metadata':{'name':'csr','uid':'u','resourceVersion':'1'},'spec':{"
                       "'signerName':'kubernetes.io/kubelet-serving','request':%s,"
                       "'usages':['digital signature','server auth'],"
                       "'username':'system:node:a','groups':['system:nodes']},'status':{}}",
                       encoded.data);
        assert_int_equal(text.error, 0);
        answer(exchange, "GET", CSR, 200, text.data);
        nb_buffer_done(&encoded);
        nb_buffer_done(&text);
        free(pem);
}

static struct nb_request_record *add_request(struct nb_controller *controller) {
        struct nb_request_record *record = nb_controller_add_request(
                controller, NB_NODE_REQUEST_SERVING, "csr", "a");

        assert_non_null(record);
        strcpy(record->uid, "u");
        record->state = NB_CSR_STATE_PENDING;
        return record;
}

static void controller_free(struct nb_controller *controller) {
        nb_controller_drop_records(controller);
        nb_controller_drop_work(controller, &controller->hosts_work);
        nb_queue_done(&controller->queue);
        nb_hosts_done(&controller->hosts);
        free(controller);
}

static struct {
        const char *name;
        uint64_t age_ms;
        bool is_approving;
        bool waits;
} rows[] = {
        { "a request waits for a newer snapshot", NB_HOSTS_AGE_MAX_MS + 1, .waits = true },
        { "an approval that was sent needs none", NB_HOSTS_AGE_MAX_MS + 1, .is_approving = true },
        /* By now, another node claims the address. */
        { "an approval that was sent is told as it was made", 0, .is_approving = true },
};

static void decides(void **state) {
        const __typeof__(rows[0]) *row = *state;
        struct nb_controller *controller = calloc(1, sizeof(*controller));
        struct nb_exchange exchange = { 0 };
        struct nb_request_record *record;
        struct nb_failure f = { 0 };

        assert_non_null(controller);
        record = add_request(controller);
        record->is_approving = row->is_approving;
        controller->hosts.read_ms = nb_now_ms() - row->age_ms;
        assert_int_equal(nb_hosts_add(&controller->hosts, NB_OWNER_CLAIMING_NODE, "10.0.0.5", "b"),
                         0);
        if (row->is_approving) {
                answer_request(&exchange);
                answer(&exchange, "PATCH", CSR "/approval", 200, "{}");
        }
        controller->admin.exchange = &exchange;
        assert_int_equal(nb_part_approve_serving.run_request(record, &f), 0);
        controller->admin.exchange = NULL;
        assert_int_equal(f.code, NB_NONE);
        assert_int_equal(controller->hosts_work.heap != NULL, row->waits);
        assert_int_equal(controller->requests[NB_NODE_REQUEST_SERVING].n, row->waits);
        assert_int_equal(controller->metrics.kinds[NB_NODE_REQUEST_SERVING].decisions[0],
                         row->is_approving);
        nb_exchange_done(&exchange);
        controller_free(controller);
}

int main(void) {
        CASES(rows, decides);
        return case_run("approver of serving certificates");
}
