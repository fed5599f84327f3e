#!/bin/sh
# Some of the calls of write, sync, truncate and read fail; no answer may be a lie.
exec "$BUILD/tests/torture/io_faults" --runs 3
