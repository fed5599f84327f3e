/*
 * commands.h - the commands, each defined beside the code that runs it.
 */
#ifndef HF_CLI_CORE_COMMANDS_H
#define HF_CLI_CORE_COMMANDS_H

#include "cli/core/args.h"

extern const struct command command_demo;
extern const struct command command_publish;
extern const struct command command_tail;
extern const struct command command_serve;
extern const struct command command_work;
extern const struct command command_claim;
extern const struct command command_ack;
extern const struct command command_nack;
extern const struct command command_release;
extern const struct command command_bury;
extern const struct command command_touch;
extern const struct command command_lease_list;
extern const struct command command_lease_revoke;
extern const struct command command_sub_list;
extern const struct command command_sub_show;
extern const struct command command_sub_create;
extern const struct command command_sub_pause;
extern const struct command command_sub_resume;
extern const struct command command_sub_seek;
extern const struct command command_sub_rm;
extern const struct command command_event_show;
extern const struct command command_event_list;
extern const struct command command_event_cancel;
extern const struct command command_wait;
extern const struct command command_retry_list;
extern const struct command command_dlq_list;
extern const struct command command_dlq_show;
extern const struct command command_dlq_retry;
extern const struct command command_dlq_edit;
extern const struct command command_dlq_resolve;
extern const struct command command_dlq_purge;
extern const struct command command_schedule_add;
extern const struct command command_schedule_list;
extern const struct command command_schedule_show;
extern const struct command command_schedule_pause;
extern const struct command command_schedule_resume;
extern const struct command command_schedule_run;
extern const struct command command_schedule_rm;
extern const struct command command_schedule_next;
extern const struct command command_later_list;
extern const struct command command_later_show;
extern const struct command command_later_cancel;
extern const struct command command_later_move;
extern const struct command command_tick;
extern const struct command command_namespace_create;
extern const struct command command_namespace_list;
extern const struct command command_namespace_show;
extern const struct command command_namespace_set;
extern const struct command command_namespace_rm;
extern const struct command command_namespace_grant;
extern const struct command command_namespace_revoke;
extern const struct command command_namespace_grants;
extern const struct command command_node_list;
extern const struct command command_node_show;
extern const struct command command_retention_run;
extern const struct command command_config_check;
extern const struct command command_config_show;
extern const struct command command_config_keys;
extern const struct command command_stats;
extern const struct command command_top;
extern const struct command command_check;
extern const struct command command_names;
extern const struct command command_bench_publish;
extern const struct command command_bench_consume;
extern const struct command command_bench_e2e;
extern const struct command command_doctor;
extern const struct command command_verify;
extern const struct command command_copy;
extern const struct command command_migrate;
extern const struct command command_completion;
extern const struct command command_version;
extern const struct command command_help;

#endif
