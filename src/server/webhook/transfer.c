/*
 * transfer.c - see transfer.h.
 *
 * A client is an easy handle of libcurl in a multi handle of its own, which keeps its connection.
 * Clients that are not in use wait in a stack, so that the one whose connection was used last is
 * used next. There are as many as requests have run at once.
 *
 * The multi handle is there for the time: a loop drives the transfer and looks ten times a second
 * whether it was cancelled. A resolver that hangs is left behind (CURLOPT_QUICK_EXIT): its thread
 * ends by itself.
 *
 * An answer counts when it is complete. One that is longer than TRANSFER_BODY_BYTES counts, too:
 * the rest is not read, and the connection is closed.
 *
 * libcurl says that it is out of memory also when a line of the answer is longer than it takes. So
 * after the request was sent that is a fault of the receiver, and a failed attempt: otherwise it
 * would be repeated for ever.
 */
#include "server/webhook/transfer.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time/clock.h"

#include <curl/curl.h>
#include <strings.h>
#include <sys/socket.h>

#define STEP_MS 100 /* between two looks whether it was cancelled */

struct client {
    struct client *next;
    CURLM *multi;
    CURL *easy;
};

struct transfers {
    struct webhook_options options;
    pthread_mutex_t mutex; /* protects the stack */
    struct client *clients;
};

/* A request under way, for the callbacks. */
struct transfer {
    const struct transfers *transfers;
    struct transfer_result *result;
    size_t header_bytes;
    size_t body_bytes;
    bool refused; /* an address */
    bool sent;    /* the request, or some of it */
    bool cut;     /* the answer is longer than what is read of it */
    bool flooded; /* its headers are */
    char error[CURL_ERROR_SIZE];
};

/* ---- Addresses ------------------------------------------------------------------------------- */

/* Whether the address may be reached; notes it if not. */
static bool may_reach(struct transfer *transfer, const struct address *address)
{
    char text[NETWORK_ADDRESS_BYTES];
    const char *kind;

    if (network_rules_allow(&transfer->transfers->options.networks, address)) {
        return true;
    }
    transfer->refused = true;
    address_format(address, text);
    kind = address_kind_name(address_kind(address));
    snprintf(transfer->result->why, sizeof transfer->result->why, "%s, %s %s address", text,
             kind[0] == 'u' ? "an" : "a", kind);
    return false;
}

/* Before a connection is opened, with the very address that it goes to. */
static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *to)
{
    struct address address;

    (void)purpose;
    if (!address_of(&to->addr, to->addrlen, &address) || !may_reach(ctx, &address)) {
        return CURL_SOCKET_BAD;
    }
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

/* Before a request is sent over a connection, which may be one of an earlier request. */
static int before_request(void *ctx, char *other_end, char *own, int other_port, int own_port)
{
    struct transfer *transfer = ctx;
    struct address address;

    (void)own;
    (void)other_port;
    (void)own_port;
    other_end[strcspn(other_end, "%")] = '\0'; /* the scope of a link-local one */
    transfer->sent = address_parse(other_end, &address) && may_reach(transfer, &address);
    return transfer->sent ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

/* ---- The answer ------------------------------------------------------------------------------ */

/* Copies the value of a header without the space around it. */
static void keep_header(const char *line, size_t length, const char *name, char *ret_value,
                        size_t bytes)
{
    size_t begin = strlen(name);

    if (length <= begin || strncasecmp(line, name, begin) != 0 || line[begin] != ':') {
        return;
    }
    begin++;
    while (begin < length && (line[begin] == ' ' || line[begin] == '\t')) {
        begin++;
    }
    while (length > begin && (unsigned char)line[length - 1] <= ' ') {
        length--;
    }
    snprintf(ret_value, bytes, "%.*s", (int)(length - begin), line + begin);
}

static size_t take_header(char *line, size_t one, size_t length, void *ctx)
{
    struct transfer *transfer = ctx;
    struct transfer_result *result = transfer->result;

    (void)one;
    transfer->header_bytes += length;
    if (transfer->header_bytes > TRANSFER_HEADER_BYTES) {
        transfer->flooded = true;
        return 0;
    }
    keep_header(line, length, "retry-after", result->retry_after, sizeof result->retry_after);
    keep_header(line, length, "location", result->location, sizeof result->location);
    return length;
}

static size_t take_body(char *bytes, size_t one, size_t length, void *ctx)
{
    struct transfer *transfer = ctx;
    struct transfer_result *result = transfer->result;
    size_t room = sizeof result->excerpt - result->excerpt_bytes;
    size_t kept = length < room ? length : room;

    (void)one;
    memcpy(result->excerpt + result->excerpt_bytes, bytes, kept);
    result->excerpt_bytes += kept;
    transfer->body_bytes += length;
    transfer->cut = transfer->body_bytes > TRANSFER_BODY_BYTES;
    return transfer->cut ? 0 : length;
}

/* ---- Clients --------------------------------------------------------------------------------- */

static void client_free(struct client *client)
{
    if (client) {
        curl_easy_cleanup(client->easy);
        curl_multi_cleanup(client->multi);
        mem_free(client);
    }
}

/* HF_INVALID: libcurl does not take one of the options. */
static hf_status client_set(const struct client *client, const struct webhook_options *options)
{
    CURL *easy = client->easy;
    CURLcode code = CURLE_OK;

#define SET(option, value) code = code ? code : curl_easy_setopt(easy, option, value)
    SET(CURLOPT_URL, options->url);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)options->connect_ms);
    SET(CURLOPT_DNS_CACHE_TIMEOUT, 0L);
    SET(CURLOPT_QUICK_EXIT, 1L);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_POST, 1L);
    SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
    SET(CURLOPT_PREREQFUNCTION, before_request);
    SET(CURLOPT_HEADERFUNCTION, take_header);
    SET(CURLOPT_WRITEFUNCTION, take_body);
    if (options->ca_file) {
        SET(CURLOPT_CAINFO, options->ca_file);
        SET(CURLOPT_CAPATH, NULL);
    }
#undef SET
    return code ? fail(HF_INVALID, "the client of HTTP: %s", curl_easy_strerror(code)) : HF_OK;
}

static hf_status client_new(const struct webhook_options *options, struct client **ret_client)
{
    struct client *client = mem_calloc(1, sizeof *client);
    hf_status status = fail(HF_NOMEM, "out of memory");

    if (client) {
        client->multi = curl_multi_init();
        client->easy = curl_easy_init();
        if (client->multi && client->easy) {
            status = client_set(client, options);
        }
    }
    if (status) {
        client_free(client);
        return status;
    }
    *ret_client = client;
    return HF_OK;
}

/* One from the stack, else a new one. */
static hf_status client_take(struct transfers *transfers, struct client **ret_client)
{
    struct client *client;

    pthread_mutex_lock(&transfers->mutex);
    client = transfers->clients;
    if (client) {
        transfers->clients = client->next;
    }
    pthread_mutex_unlock(&transfers->mutex);
    if (client) {
        *ret_client = client;
        return HF_OK;
    }
    return client_new(&transfers->options, ret_client);
}

static void client_return(struct transfers *transfers, struct client *client)
{
    pthread_mutex_lock(&transfers->mutex);
    client->next = transfers->clients;
    transfers->clients = client;
    pthread_mutex_unlock(&transfers->mutex);
}

/* ---- One transfer ---------------------------------------------------------------------------- */

static struct curl_slist *make_headers(const struct transfer_request *request)
{
    struct curl_slist *list = NULL;

    for (size_t i = 0; i < request->header_count; i++) {
        struct curl_slist *longer = curl_slist_append(list, request->headers[i]);
        if (!longer) {
            curl_slist_free_all(list);
            return NULL;
        }
        list = longer;
    }
    return list;
}

static bool prepare(struct client *client, struct transfer *transfer,
                    const struct transfer_request *request, struct curl_slist *headers)
{
    CURL *easy = client->easy;

    return curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body.bytes) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.length) ==
               CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)request->timeout_ms) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfer) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error) == CURLE_OK &&
           curl_multi_add_handle(client->multi, easy) == CURLM_OK;
}

/* Until it has ended, was cancelled, or its time is over. */
static CURLcode drive(struct client *client, const struct transfer_request *request)
{
    int64_t until_us = clock_mono_us() + request->timeout_ms * 1000;
    int running = 1;
    int left;
    const CURLMsg *message;

    for (;;) {
        if (curl_multi_perform(client->multi, &running) != CURLM_OK) {
            return CURLE_OUT_OF_MEMORY;
        }
        if (!running) {
            break;
        }
        if (request->cancelled(request->ctx)) {
            return CURLE_ABORTED_BY_CALLBACK;
        }
        int64_t left_ms = (until_us - clock_mono_us()) / 1000;
        if (left_ms <= 0) {
            return CURLE_OPERATION_TIMEDOUT;
        }
        curl_multi_poll(client->multi, NULL, 0, left_ms < STEP_MS ? (int)left_ms : STEP_MS, NULL);
    }
    message = curl_multi_info_read(client->multi, &left);
    return message && message->msg == CURLMSG_DONE ? message->data.result : CURLE_OUT_OF_MEMORY;
}

/* Why a transfer has failed. Texts are equal for equal failures: dead letters are counted by them,
 * and libcurl's own name ports and times. */
static void tell_failure(struct transfer *transfer, CURLcode code)
{
    struct transfer_result *result = transfer->result;
    bool tls = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CONNECT_ERROR ||
               code == CURLE_SSL_CACERT_BADFILE || code == CURLE_SSL_ISSUER_ERROR;

    result->end = TRANSFER_FAILED;
    if (transfer->flooded) {
        snprintf(result->why, sizeof result->why, "its headers have more than %d bytes",
                 TRANSFER_HEADER_BYTES);
    } else if (code == CURLE_PARTIAL_FILE) {
        snprintf(result->why, sizeof result->why, "the answer ends before it is complete");
    } else if (code == CURLE_OUT_OF_MEMORY) {
        snprintf(result->why, sizeof result->why, "a header of the answer is too long");
    } else {
        snprintf(result->why, sizeof result->why, "%s",
                 tls && transfer->error[0] ? transfer->error : curl_easy_strerror(code));
    }
}

static void conclude(struct client *client, struct transfer *transfer,
                     const struct transfer_request *request, CURLcode code)
{
    struct transfer_result *result = transfer->result;
    long status = 0;

    curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &status);
    result->status = (int)status;
    if (code == CURLE_OK || transfer->cut) {
        result->end = TRANSFER_ANSWERED;
    } else if (transfer->refused) {
        result->end = TRANSFER_REFUSED;
    } else if (code == CURLE_ABORTED_BY_CALLBACK && request->cancelled(request->ctx)) {
        result->end = TRANSFER_CANCELLED;
    } else if (code == CURLE_OPERATION_TIMEDOUT) {
        result->end = TRANSFER_TIMED_OUT;
    } else if (code == CURLE_OUT_OF_MEMORY && !transfer->sent) {
        result->end = TRANSFER_NO_MEMORY;
    } else {
        tell_failure(transfer, code);
    }
}

void transfer_run(struct transfers *transfers, const struct transfer_request *request,
                  struct transfer_result *ret_result)
{
    struct transfer transfer = {.transfers = transfers, .result = ret_result};
    struct curl_slist *headers = make_headers(request);
    struct client *client = NULL;

    *ret_result = (struct transfer_result){.end = TRANSFER_NO_MEMORY};
    if (!headers || client_take(transfers, &client)) {
        curl_slist_free_all(headers);
        return;
    }
    if (prepare(client, &transfer, request, headers)) {
        conclude(client, &transfer, request, drive(client, request));
    }
    curl_multi_remove_handle(client->multi, client->easy);
    curl_easy_setopt(client->easy, CURLOPT_ERRORBUFFER, NULL); /* it was on this stack */
    curl_slist_free_all(headers);
    client_return(transfers, client);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_code;

static void init_curl(void)
{
    curl_code = curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* The client would say so of each request. */
static hf_status check_url(const char *url)
{
    CURLU *parts = curl_url();
    CURLUcode code = parts ? curl_url_set(parts, CURLUPART_URL, url, 0) : CURLUE_OUT_OF_MEMORY;

    curl_url_cleanup(parts);
    if (code == CURLUE_OUT_OF_MEMORY) {
        return fail(HF_NOMEM, "out of memory");
    }
    return code ? fail(HF_INVALID, "the URL of the webhook: %s", curl_url_strerror(code)) : HF_OK;
}

hf_status transfers_open(const struct webhook_options *options, struct transfers **ret_transfers)
{
    struct transfers *transfers;
    struct client *first = NULL;
    hf_status status;

    pthread_once(&curl_once, init_curl);
    if (curl_code) {
        return fail(HF_UNAVAILABLE, "the client of HTTP: %s", curl_easy_strerror(curl_code));
    }
    status = check_url(options->url);
    if (status) {
        return status;
    }
    if (options->ca_file && access(options->ca_file, R_OK) != 0) {
        return fail(HF_NOTFOUND, "the file of certificates %s cannot be read", options->ca_file);
    }
    transfers = mem_calloc(1, sizeof *transfers);
    if (!transfers) {
        return fail(HF_NOMEM, "out of memory");
    }
    status = mutex_init(&transfers->mutex);
    if (status) {
        mem_free(transfers);
        return status;
    }
    transfers->options = *options;
    status = client_new(options, &first); /* so that a mistake shows now */
    if (status) {
        transfers_close(transfers);
        return status;
    }
    client_return(transfers, first);
    *ret_transfers = transfers;
    return HF_OK;
}

void transfers_close(struct transfers *transfers)
{
    if (!transfers) {
        return;
    }
    while (transfers->clients) {
        struct client *client = transfers->clients;
        transfers->clients = client->next;
        client_free(client);
    }
    pthread_mutex_destroy(&transfers->mutex);
    mem_free(transfers);
}
