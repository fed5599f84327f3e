/*
 * module.h - what an engine in a shared library of its own and the library that opens it agree on.
 *
 * The module exports one name, holdfast_postgres_module. It is no public interface: an engine is
 * called through struct engine_class and reads structs of src/store and src/base, and these change
 * with every version. So both sides must come from one build of one source; `identity`, which is
 * the version and a digest of the source files, is compared before anything else is read.
 *
 * The module has its own copy of the code of src/base and src/store that the engine calls. That
 * code has no state but one: the sentence of the thread's last failure (base/err.h), which the
 * module therefore keeps where the library keeps it. (Fault points, the failing allocator and the
 * fake clock are state, too; in builds that have them only the command opens a module, one that has
 * no copy but uses the code of the command: HF_ENGINE_IS_GUEST.)
 */
#ifndef HF_STORE_MODULE_MODULE_H
#define HF_STORE_MODULE_MODULE_H

#include "store/engine.h"

struct engine_module {
    const char *identity; /* the first field in every version: BUILD_IDENTITY of the module */

    /* `slot` is err_slot of the caller. NULL: the module serves another copy of the library in this
     * process already. Any thread may call it, any number of times. */
    const struct engine_class *(*attach)(char *(*slot)(void));
};

#define ENGINE_MODULE_SYMBOL "holdfast_postgres_module"

extern const struct engine_module holdfast_postgres_module;

#endif
