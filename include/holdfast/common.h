/*
 * holdfast/common.h - version, limits, and how a function is declared.
 */
#ifndef HOLDFAST_COMMON_H
#define HOLDFAST_COMMON_H

#include <stddef.h>
#include <stdint.h>

#define HF_VERSION_MAJOR 0
#define HF_VERSION_MINOR 1
#define HF_VERSION_PATCH 0
#define HF_VERSION "0.1.0"

#if defined(__GNUC__)
#define HF_API __attribute__((visibility("default")))
#define HF_PRINTF(text_at, args_at) __attribute__((format(printf, text_at, args_at)))
#else
#define HF_API
#define HF_PRINTF(text_at, args_at)
#endif

/* ---- Limits ---------------------------------------------------------------------------------- */

#define HF_TYPE_BYTES_MAX 255              /* event type and pattern */
#define HF_NAME_BYTES_MAX 255              /* subscription name */
#define HF_NAMESPACE_BYTES_MAX 128         /* namespace name */
#define HF_KEY_BYTES_MAX 65536             /* key and tenant, each */
#define HF_UNIQUE_BYTES_MAX 255            /* unique key of an event */
#define HF_PRODUCER_BYTES_MAX 255          /* producer and node name */
#define HF_NODE_ID_BYTES_MAX 128           /* id of a node */
#define HF_NODE_DESCRIPTION_BYTES_MAX 1024 /* description of a node */
#define HF_NODE_METADATA_BYTES_MAX 4096    /* metadata of a node, a JSON object */
#define HF_NODES_GONE_MAX 1000             /* nodes of a namespace that are kept after their end */
#define HF_METADATA_BYTES_MAX 65536        /* metadata, a JSON object */
#define HF_PAYLOAD_BYTES_MAX_DEFAULT 1048576 /* payload; raised with hf_options */
#define HF_JSON_DEPTH_MAX 64                 /* nesting of payload and metadata */
#define HF_PATTERNS_MAX 64                   /* patterns of one subscription */
#define HF_PARTITIONS_MAX 1024               /* partitions of one subscription */
#define HF_PUBLISH_MANY_MAX 100000           /* events in one hf_publish_many */
#define HF_CLAIM_MAX 10000                   /* events in one hf_claim */
#define HF_BLOCKED_LIST_MAX 1000             /* keys in one hf_blocked_list */
#define HF_RETRY_LIST_MAX 1000               /* deliveries in one hf_retry_list */
#define HF_RETRY_HELD_MAX 1000               /* events behind a retry that are counted */
#define HF_RUNNING_LIST_MAX 1000             /* events in one hf_running_list */
#define HF_OUTCOMES_MAX 1000                 /* outcomes kept of one subscription */
#define HF_ERROR_BYTES_MAX 2048              /* stored text of one attempt's error */
#define HF_ID_BYTES 37                       /* "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" and NUL */
#define HF_LEASE_BYTES 33                    /* 32 hexadecimal digits and NUL */
#define HF_AUTO_LENGTH ((size_t)-1)          /* payload_bytes: the payload is NUL-terminated */

#endif /* HOLDFAST_COMMON_H */
