#!/bin/sh
# Publishers and consumers are killed at random and at named points; nothing may be lost.
# The program prints TAP and its seed; `make torture` runs it for longer.
exec "$BUILD/tests/torture/kill_cycles" --seconds 20
