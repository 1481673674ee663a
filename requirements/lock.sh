#!/usr/bin/env bash
# Pin every requirement file again from its .in file: `make lock`.
set -euo pipefail
cd "$(dirname "$0")"

lock() {
    local minimum="$1" name="$2"
    "${UV:-uv}" pip compile --quiet --universal --python-version "$minimum" --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-header --upgrade "$name.in" --output-file "$name.txt"
}

lock 3.11 base
lock 3.11 dev
lock 3.11 postgres
lock 3.11 mysql
lock 3.11 grpc
lock 3.11 bench
lock 3.11 docs
lock 3.12 django-next
