/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "admin/client/facts.h"
#include "admin/parts/parts.h"
#include "base/encoding.h"
#include "os/clock.h"

#include "answers.h"
#include "make_request.h"

#define KUBE_SYSTEM "/api/v1/namespaces/kube-system/"
#define CSR "/apis/certificates.k8s.io/v1/certificatesigningrequests/csr"

/* The request of node a for 10.0.0.5. */
static void answer_request(struct nb_admin_call *call) {
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
        answer(call, "GET", CSR, 200, text.data);
        nb_buffer_done(&encoded);
        nb_buffer_done(&text);
        free(pem);
}

static struct nb_request_record *add_request(struct nb_controller *controller) {
        struct nb_request_record *record = nb_controller_add_request(
                controller, NB_NODE_REQUEST_SERVING, "u", "csr", "a", "");

        assert_non_null(record);
        record->state = NB_CSR_STATE_PENDING;
        return record;
}

static void controller_free(struct nb_controller *controller) {
        nb_controller_drop_records(controller);
        nb_queue_done(&controller->queue);
        nb_hosts_done(&controller->hosts);
        free(controller);
}

static struct {
        const char *name;
        uint64_t age_ms;
        const char *owner; /* of the address, by the snapshot */
        bool waits, is_approved;
} rows[] = {
        { "a request waits for a newer snapshot", NB_HOSTS_AGE_MAX_MS + 1, "a", .waits = true },
        { "it is approved by a new one", 0, "a", .is_approved = true },
        { "the address of another node is not", 0, "b" },
};

static void decides(void **state) {
        const __typeof__(rows[0]) *row = *state;
        const struct nb_part *part = &nb_part_approve_serving;
        struct nb_controller *controller = calloc(1, sizeof(*controller));
        struct nb_plan plan = { 0 };
        struct nb_request_record *record;
        struct nb_failure f = { 0 };

        assert_non_null(controller);
        controller->deciders[NB_NODE_REQUEST_SERVING] = part;
        controller->lists = controller->watches;
        record = add_request(controller);
        controller->hosts.read_ms = nb_now_ms() - row->age_ms;
        nb_hosts_add(&controller->hosts, "10.0.0.5", row->owner, false);
        assert_int_equal(part->begin_request(record, &plan), 0);
        answer_request(&plan.reads[NB_READ_REQUEST]);
        answer(&plan.reads[NB_READ_POLICY], "GET", KUBE_SYSTEM "configmaps/node-bootstrap-policy",
               200,
               "{\"data\":{\"servingPrefixes\":\"10.0.0.0/8\",\"servingRefused\":\"none\","
               "\"serviceNetworks\":\"none\",\"podNetworks\":\"none\"}}");
        answer(&plan.reads[NB_READ_RECORD], "GET", KUBE_SYSTEM "secrets/node-bootstrap-node-a", 404,
               "{\"kind\":\"Status\",\"code\":404}");
        answer(&plan.reads[NB_READ_NODE], "GET", "/api/v1/nodes/a", 200,
               "{\"metadata\":{\"name\":\"a\"},\"status\":{\"addresses\":["
               "{\"address\":\"10.0.0.5\"}]}}");
        assert_int_equal(part->judge_request(record, &plan, &f), 0);
        assert_int_equal(f.code, NB_NONE);
        assert_int_equal(controller->lists[NB_LIST_NODES].wants_list, row->waits);
        assert_int_equal(plan.n_writes, !row->waits);
        if (!row->waits)
                assert_string_equal(plan.writes[0].path,
                                    row->is_approved ? CSR "/approval"
                                                     : "/api/v1/namespaces/default/events");
        if (row->is_approved)
                assert_int_equal(part->written(record, &plan, &plan.writes[0], 200, &f), 0);
        assert_int_equal(controller->metrics.kinds[NB_NODE_REQUEST_SERVING].decisions[0],
                         row->is_approved);
        assert_int_equal(record->is_over, row->is_approved);
        nb_plan_done(&plan);
        controller_free(controller);
}

int main(void) {
        CASES(rows, decides);
        return case_run("approver of serving certificates");
}
