#!/bin/sh
# The process is killed at the first and second hit of every fault point; nothing may be lost.
exec "$BUILD/tests/torture/points"
