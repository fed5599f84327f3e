#!/bin/sh
# Consumers are stopped past their leases and continued; what they answer then must be refused.
exec "$BUILD/tests/torture/kill_cycles" --freeze 1 --seconds 12
