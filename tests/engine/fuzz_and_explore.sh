#!/usr/bin/env bash
# Fuzzes the shipped protocol with a fixed seed, and visits every state of three small worlds.
#
#   fuzz_and_explore.sh LANYARD
set -euo pipefail
lanyard=$1
"$lanyard" fuzz --seconds 30 --jobs 1 --seed 1
"$lanyard" explore --config 2ranks,1req-each-way,1iter
"$lanyard" explore --config 2ranks,1req-one-way,2iter
"$lanyard" explore --config 2ranks,1req-each-way,1iter,sender-flag
