/*
 * runner.h - what keeps one subscription moving in this process.
 *
 * A runner has turns, and workers while there is something to run. The thread that takes a turn
 * (here called the dispatcher; dispatchers.h) alone talks to the store about progress: it gets work
 * into the window, workers run it, the dispatcher settles what has ended. How work is got and
 * settled is the mode's: ordered.c owns a partition and moves a checkpoint, shared.c claims leases
 * and acknowledges them.
 *
 *     dispatcher:  turn (plan and perform: settle what ended, fill the window ...)
 *     worker:      take a chunk -> run it -> report
 */
#ifndef HF_BUS_DELIVER_RUNNER_H
#define HF_BUS_DELIVER_RUNNER_H

#include "base/breaker.h"
#include "bus/deliver/settlement.h"
#include "bus/deliver/turn/dispatchers.h"
#include "bus/deliver/turn/plan.h"
#include "bus/deliver/work/worker.h"
#include "bus/subscription.h"

struct ordered;
struct shared;
struct notice;

#define RUNNER_FLUSH_MAX 512    /* outcomes in one settle, unless units may be larger */
#define RUNNER_LATE_US 500000   /* an answer of the store that takes longer is late */
#define STORE_RETRY_MS_MAX 2000 /* between tries of what the store has refused */
#define RUNNER_NOTICES_MAX 64   /* messages that wait for the dispatcher */
#define RUNNERS_MANY 50         /* so many of a bus look by themselves less often: wait_ms */
#define RUNNERS_APART_US 1000   /* see runner_apart_us */
#define RUNNER_PROMPT_MS 100    /* with a shorter checkpoint_ms every report wakes the dispatcher */

/* A turn: see plan.h. */
struct turn {
    int64_t now_us;   /* wall clock, when it began */
    int64_t mono_us;  /* the same, monotonic */
    uint32_t steps;   /* STEP: still to be taken */
    int64_t wake_us;  /* wall clock: look again then; INT64_MAX: when something happens */
    int64_t store_us; /* the same, but only to store what is there: there is no need to look */
};

/* The two modes. All functions run on the dispatcher without its mutex. */
struct runner_mode {
    uint32_t steps; /* of a turn, beside those of both modes */
    /* What the plan has to know of it. */
    void (*survey)(struct runner *runner, struct situation *situation);
    /* Does what was planned. */
    void (*perform)(struct runner *runner, enum action action, struct turn *turn);
    /* The definition is another one now; `differs`: the log is read differently by it. */
    void (*adopt)(struct runner *runner, bool differs);
    /* Nothing runs any more: settle the rest, give back what is ours. */
    hf_status (*finish)(struct runner *runner, int64_t now_us);
};

/*
 * What the runner is to do; its phase (plan.h) says what it does. Guarded by the runner's mutex.
 *
 *     COURSE_HALT    nothing: it has no turns, or ends by stop_deadline
 *     COURSE_WORK    its work (runner_start)
 *     COURSE_RETIRE  no handler is left, or the subscription was removed: when nothing runs any
 *                    more it gives back what it has, takes its entry out of the bus' list
 *                    (subscription_retired) and ends. If a handler is registered before that, it
 *                    works again (runner_set_handlers)
 *
 * runner_stop_begin makes each of them COURSE_HALT.
 */
enum course { COURSE_HALT, COURSE_WORK, COURSE_RETIRE };

#define CANCELS_MAX 256 /* requests to cancel that are looked after at once */

/* Requests to cancel events that this process may have in hand (store/cancel.h). It belongs to the
 * dispatcher, but for what is atomic. */
struct cancels {
    struct cancel_request {
        int64_t position;
        int64_t hash;
    } * requests; /* room for CANCELS_MAX; NULL: there never were any */
    size_t count;
    bool unread; /* there may be others in the store: the definition has another generation, or a
                    partition was taken */
    atomic_bool open; /* some are not answered: workers that report call the dispatcher */
};

struct runner {
    hf_bus *bus; /* counted */
    const struct runner_mode *mode;
    atomic_int references;        /* the subscription, its seat, every worker */
    char *name;                   /* of the subscription */
    struct meter *meter;          /* of the subscription; the bus' */
    struct definition definition; /* changed only by the dispatcher, under the mutex */
    struct seat seat;             /* among the dispatchers of the bus */
    struct runner *timed_next;    /* in the timekeeper's list ... */
    struct runner **timed_at;     /* what points to it there */
    struct runner *departed_next; /* in the bus' list of departures */

    pthread_mutex_t mutex;             /* guards what follows */
    pthread_cond_t changed;            /* a stop waits here: for the end of its turns, and of
                                          stuck workers */
    pthread_cond_t work;               /* workers wait here */
    struct handlers *handlers;         /* counted */
    _Atomic uint32_t handlers_version; /* rises when they change; read without the mutex */
    struct window window;
    struct worker *workers;
    struct worker *aborting; /* stuck ones whose transaction is still to be rolled back */
    int32_t worker_count;
    int32_t stuck;                 /* workers whose turn was taken and that still run */
    int32_t idle;                  /* workers that wait for work, or are about to look for it */
    bool present;                  /* it has turns, or will have: its seat is not AWAY */
    _Atomic uint32_t needs;        /* enum need; see plan.h */
    atomic_bool rests;             /* its follower rests at the tail (tail.h) */
    uint32_t bars;                 /* enum bar, those that were raised; runner_bars has all */
    enum course course;            /* BAR_STOPPING, unless it is to work */
    struct deadline stop_deadline; /* then running handlers are given up */
    bool probe_wanted;             /* the breaker allows the next delivery, and only that */
    int64_t asked_us;              /* the dispatcher waits for an answer of the store since then
                                      (monotonic; 0: it does not): BAR_AWAY if that is too long */
    int64_t rest_until_us;         /* monotonic; after a failed transaction: no new one before */
    int32_t singly;                /* so many chunks of one delivery are to come */
    int64_t rate_left;             /* how many deliveries may begin by the rate; below 0: so many
                                      too many have, because a unit was larger */
    int64_t rate_until_us;         /* monotonic; then what is left is none any more */
    int64_t handler_us;            /* how long a handler takes, smoothed */
    struct unit_limits limits;     /* of its units */
    struct unit_mark torn;   /* ordered: a unit that is due and in hand in part; the rest of it is
                               still to be read. events 0: none */
    int64_t members_version; /* ordered: the subscription's version of the members, as last seen */
    struct breaker breaker;  /* if the definition wants one: runner_breaks */
    struct notice *notices;  /* what the dispatcher is to tell the log, see runner_note */
    size_t notice_count;

    /* the dispatcher's own */
    enum phase phase;                /* changed by enter (runner_life.c) */
    struct deadline look_deadline;   /* while it waits: then it looks at everything */
    struct deadline finish_deadline; /* after PHASE_DRAIN: what is ours is given back by then */
    hf_status finish_status;         /* how giving back went ... */
    enum course finish_course;       /* the course on which that was tried last */
    char finish_message[256];
    int64_t pause_ms;  /* between the last two tries to give back */
    int64_t pause_us;  /* monotonic; PHASE_PAUSE: until then */
    bool left;         /* the last stop did not wait for it */
    char trouble[256]; /* why a transaction could not be kept; for the log */
    struct batch_pool batch_pool;
    struct settlement settlement; /* one flush; of a shared subscription, of one lease */
    int64_t refreshed_us;         /* monotonic; when the definition was last read */
    int64_t looked_us;        /* monotonic; when it last looked at everything because it was time */
    int64_t retry_refresh_us; /* monotonic; the definition could not be read: not before */
    int64_t retry_store_us;   /* monotonic; after a failure of the store: not before */
    int64_t store_failures;   /* in a row */
    int64_t rate_wake_us;     /* monotonic; the rate is used up: not before. INT64_MAX: it is not */
    int64_t refused_settles;  /* the same, see runner_settle_refused */
    char said[256];           /* last thing told to the log by runner_say */
    struct cancels cancels;
    struct ordered *ordered;
    struct shared *shared;
};

extern const struct runner_mode ordered_mode;
extern const struct runner_mode shared_mode;

hf_status ordered_new(int32_t partitions, struct ordered **ret_ordered);
void ordered_free(struct ordered *ordered);
/* The proof for a transaction about an event of this partition. The mutex is held. */
struct hold ordered_hold(struct ordered *ordered, int32_t partition);
/* Another process has the partition: what is in hand of it will be dropped. The mutex is held. */
void membership_lose(struct runner *runner, int32_t partition);
struct cancel;
/* Is the event of a partition that is ours? Then says how `cancel` is to be answered, for the event
 * is not in hand; CANCEL_REQUEST: that is not known now. The mutex is held. */
bool ordered_seek_out(struct runner *runner, struct cancel *cancel);
/* The event that was not read yet is cancelled: it is not put when it is read. The mutex is
 * held. */
void ordered_pass_over(struct runner *runner, const struct cancel *cancel);
hf_status shared_new(struct shared **ret_shared);
void shared_free(struct shared *shared);

/* A runner for a subscription, with one reference; not started. Takes the handlers' reference. */
hf_status runner_new(hf_bus *bus, const struct definition *definition, struct handlers *handlers,
                     struct runner **ret_runner);
hf_status runner_start(struct runner *runner);
/* Asks it to stop by the deadline, if it runs. */
void runner_stop_begin(struct runner *runner, struct deadline deadline);
/* Waits until it has. HF_TIMEOUT: a handler still runs, or something could not be stored or given
 * back (what an earlier stop could not is tried again here), or the dispatcher itself still waits
 * for the store: it gives back when it is answered. */
hf_status runner_stop_end(struct runner *runner, const struct stop_deadlines *stop_deadlines);
/* Does no handler run, and is nothing to be stored of what ran? */
bool runner_is_idle(struct runner *runner);
/* Waits for the last turn of a runner that was asked to stop, and for nothing else. HF_TIMEOUT: it
 * still waits for the store. */
hf_status runner_join(struct runner *runner, struct deadline deadline);
/* Has it turns, or will it have? */
bool runner_is_present(struct runner *runner);
void runner_reference(struct runner *runner);
void runner_unreference(struct runner *runner);
/* Replaces the handlers (takes the reference). Without any it retires. */
void runner_set_handlers(struct runner *runner, struct handlers *handlers);
/* The course has been set: wakes all that must look at it. The mutex is held. */
void runner_course_changed(struct runner *runner);

/* The turn wants to be followed by another one at this time (wall clock) at the latest. */
void turn_wake(struct turn *turn, int64_t at_us);
/* The same, to store what waits for that, and not to look whether there is anything new. */
void turn_store(struct turn *turn, int64_t at_us);
/* What the plan is now, in the middle of an action: what would come after it. */
enum action turn_next(struct runner *runner, const struct turn *turn);

/* Sets bits of `needs`: the dispatcher, or another thread that holds the mutex. */
void runner_need(struct runner *runner, uint32_t needs);
/* The same, and the runner gets a turn that begins after this. The mutex is held. */
void runner_call(struct runner *runner, uint32_t needs);
/* Clears bits of `needs` and answers which were set. Only the dispatcher does that. */
uint32_t runner_take(struct runner *runner, uint32_t needs);
/* Is one of them set? */
bool runner_needs(const struct runner *runner, uint32_t needs);
/* Raises bars, or lowers them. What is held back is looked into: NEED_ADMISSION. The mutex is
 * held. */
void runner_raise(struct runner *runner, uint32_t bars);
void runner_lower(struct runner *runner, uint32_t bars);
/* What keeps workers from beginning anything; 0: nothing does. The mutex is held. */
uint32_t runner_bars(const struct runner *runner);

/* For the dispatcher. */

/* One turn of the runner that has this seat; `by_clock`: its time has come. */
struct seat_next runner_turn(struct seat *seat, bool by_clock);
/* That was its last turn. */
void runner_left(struct seat *seat);
/* An action that ends a phase; false: the runner is over. */
bool runner_end_phase(struct runner *runner, enum action action);
/* Is what is ours being given back? Then the store is asked until finish_deadline only. */
bool runner_is_finishing(const struct runner *runner);

/* Tells the log what runner_note has left. The mutex is not held. */
void runner_log_notices(struct runner *runner);

/* Frees the memory for what is in hand, if nothing is, and there are many runners. */
void runner_put_away(struct runner *runner);

/* For the modes. */

/* Memory for what is in hand, and for settling it: before something is put into the window.
 * HF_NOMEM: it may be asked again. */
hf_status runner_prepare(struct runner *runner);
/* Hands a change over: with the call's deadline, or while the runner is stopping with what is left
 * of its time. */
hf_status runner_run(struct runner *runner, struct change *change);
/* Hands two changes over, which one commit may carry, in this order; not while the runner is
 * stopping. Their answers are in them, status and message. */
void runner_run_both(struct runner *runner, struct change *first, struct change *second);
/* Many runners of a bus that did something at the same moment would keep its publishers waiting:
 * over how long they spread that, RUNNERS_APART_US for each. 0: they are few. */
int64_t runner_apart_us(const struct runner *runner);
/* How long what is done may wait to be stored: checkpoint_ms, and with many runners no less than
 * runner_apart_us. */
int64_t runner_checkpoint_us(const struct runner *runner);
/* Says something to the log once, until something else is said. "" forgets. */
void runner_say(struct runner *runner, hf_log_level level, const char *format, ...) HF_PRINTF(3, 4);
/* Has the subscription a breaker? */
bool runner_breaks(const struct runner *runner);
/* Asks whether the definition has changed, and reads it if it has, or if NEED_DEFINITION is set. */
void runner_refresh(struct runner *runner, int64_t mono_us);
/* Do the definition and the handlers allow work? Raises or lowers BAR_HELD_BACK. */
void runner_admit(struct runner *runner);
/* Do they, as was found out last? False also if that is to be found out again. */
bool runner_may_work(struct runner *runner);
/* Remembers a failure of the store and says so; the next try is later (up to 2 s). */
void runner_store_failed(struct runner *runner, hf_status status, const char *doing);
void runner_store_worked(struct runner *runner);
/* The store has answered a settle, but not as it should: that may be over as soon as the definition
 * is read or the partition taken again, so the first few are tried again at once. Further ones in a
 * row come later and later (up to 2 s), and the log says so once. runner_settle_worked ends it. */
void runner_settle_refused(struct runner *runner, hf_status status);
void runner_settle_worked(struct runner *runner);
/*
 * The store does not take what ends. For an ordered subscription whatever would run now would
 * probably run again: what is not stored when a connection is lost is lost with it. So workers
 * begin nothing. Only the dispatcher raises and lowers it:
 *
 *   runner_away     what ended could not be stored (ordered_not_settled), or the definition could
 *                   not be read, without which nothing is stored (runner_refresh), or an answer
 *                   came late (RUNNER_LATE_US): raised, until checkpoints are stored
 *   runner_back     checkpoints were stored: lowered. While it is raised and something is in hand
 *                   each step stores those of all partitions, moved or not (settle.c). That
 *                   shows that the store takes what ends, and refuses what is not ours any more
 *   runner_bars     the dispatcher waits for an answer, for RUNNER_LATE_US or for a database that
 *                   is not there (store_is_away): as if it were raised, until the answer is there;
 *                   at the end of its turn workers are woken
 *
 * A step that fails has its time to be tried again (retry_store_us), and one whose answer was late
 * is followed by another at once, so a step always comes that stores or fails. With nothing in hand
 * none stores, but then there is nothing to run, and the step that gets some is followed by another
 * at once, too. What fails but does not prevent storing (reading the log, say) does not raise
 * it: what is in hand is run and stored. Not for shared subscriptions: a lease outlasts a lost
 * connection, so what runs meanwhile is settled later; and not for transactional handlers: without
 * the store they do not begin, and what cannot be stored is undone.
 */
void runner_away(struct runner *runner);
void runner_back(struct runner *runner);
/* Reads the requests to cancel, if there may be new ones, and answers those that can be answered
 * now. False: the store failed. (cancels.c) */
bool cancels_answer(struct runner *runner, int64_t now_us);
/* Fills in what an ended slot means (mutex not held; dispatcher only). `story` lives as long as the
 * outcome. */
hf_status runner_outcome(struct runner *runner, const struct slot *slot, int64_t now_us,
                         struct buf *story, struct outcome *ret_outcome);
/* Tells the log of a failed attempt, once its outcome is stored. */
void runner_log_failure(const struct runner *runner, const struct slot *slot,
                        const struct outcome *outcome, int64_t now_us);
/* Marks a slot that has just been put: what may have killed its process (`doubtful`), and what did
 * where no notes are taken, has its attempt recorded before it runs; the last one alone. Mutex
 * held. */
void runner_mark_prerecord(const struct runner *runner, struct slot *slot, bool doubtful);
/* Ends a READY slot if no handler is to see it: it is outside the patterns, or its attempts are
 * used up. Mutex held. */
void runner_sort_out(struct runner *runner, struct slot *slot);
/* Pauses the subscription and says why. */
void runner_pause(struct runner *runner, const char *reason);
/* By the timekeeper. Takes the turn of every worker whose time is up: past the limit of a handler
 * it is a failed attempt, past the deadline of a stop it is delivered again. Answers the monotonic
 * time to look again, INT64_MAX if nothing is in hand. Never waits. The mutex is held. */
int64_t runner_keep_time(struct runner *runner, int64_t mono_us);
/* Tells the timekeeper that handlers may begin from now on. Mutex held. */
void runner_expect_timeout(struct runner *runner, int64_t mono_us);
/* Does something run, or may something? Mutex held. */
bool runner_has_work(const struct runner *runner);
/* Starts a worker if something may begin and no worker waits for it. Mutex held. */
void runner_start_worker(struct runner *runner);
/* Wakes workers if there is work for them, or starts one. Mutex held. */
void runner_signal_work(struct runner *runner);

/* For the workers; mutex held. */

/* Leaves a message for the log, which the dispatcher writes in its next turn: a log callback may
 * take its time, and no other thread should wait for this mutex meanwhile. At most
 * RUNNER_NOTICES_MAX messages wait; further ones are dropped. */
void runner_note(struct runner *runner, const char *format, ...) HF_PRINTF(2, 3);

/* Has something ended that is to be stored at once? */
bool runner_is_urgent(const struct runner *runner);
/* How many deliveries may begin by the rate of the subscription, as far as this process has taken
 * its share; INT64_MAX: any number. */
int64_t runner_rate_left(const struct runner *runner);
/* The unit's events are about to begin: they are charged. */
struct unit;
void runner_rate_charge(struct runner *runner, const struct unit *unit);
/* How many units a worker may take now; 0: none. */
size_t runner_chunk_size(struct runner *runner);
/* What a worker reports: the delivery ended (the error is handed over). */
void runner_slot_ended(struct runner *runner, struct slot *slot, struct chunk_result *result,
                       bool in_tx);
/* The delivery was not run, or its run was undone. */
void runner_slot_untaken(struct runner *runner, struct slot *slot);
/* The worker has reported its chunk: wakes the dispatcher if it has something to do now. */
void runner_chunk_reported(struct runner *runner, size_t done, int64_t took_us);
/* Another process has what the slot belongs to, a partition or a lease. */
void runner_lose(struct runner *runner, const struct slot *slot);
/* The proof that a transaction needs for a slot. */
struct hold runner_hold(const struct runner *runner, const struct slot *slot);
const uint8_t *lease_token(const struct lease *lease);
/* One of its events is cancelled, and out of it. The mutex is held. */
void lease_cancelled(struct lease *lease);
/* Another process has the lease: what is in hand of it will be dropped. */
void lease_lose(struct runner *runner, struct lease *lease);

#endif
