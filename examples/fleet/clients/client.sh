#!/bin/sh
# Choose an option with curl, use it, and submit its reward: AGENT=127.0.0.1:8400 sh client.sh
# Whatever fails, `choose` sets the default; `observe` retries, which never counts a reward twice.
AGENT=${AGENT:-127.0.0.1:8400} BANDIT=${BANDIT:-button} DEFAULT=${DEFAULT:-blue}
TIMEOUT=${TIMEOUT:-0.5} # seconds for one request

# Print the status and the body of an answer; the status is 000 without one.
ask() { # PATH BODY
  answer=$(curl --silent --max-time "$TIMEOUT" --write-out '\n%{http_code}' \
    ${TOKEN:+--header "Authorization: Bearer $TOKEN"} \
    --header 'Content-Type: application/json' --data "$2" \
    "http://$AGENT/bandits/$BANDIT/$1") || { echo 000; return; }
  printf '%s\n' "${answer##*
}" "$answer"
}

field() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p"; }

choose() { # sets `arm` and `ticket`, which is empty for the default
  answer=$(ask choose '{}')
  arm=$(printf %s "$answer" | field arm) ticket=$(printf %s "$answer" | field ticket)
  case $answer in 200*) [ -n "$arm" ] && [ -n "$ticket" ] && return ;; esac
  arm=$DEFAULT ticket=
}

observe() { # TICKET REWARD; fails if the reward was not counted
  [ -n "$1" ] || return 0
  for pause in 0.1 0.2 0.4 0.8 1.6 3.2 0; do
    answer=$(ask observe "{\"ticket\": \"$1\", \"reward\": $2}")
    case $answer in
      200*'"duplicate"'*) return 0 ;;
      429*) ;;
      4*) break ;; # rejected for good
    esac
    sleep "$pause" # busy, stopping or away: try again
  done
  echo "a reward is lost: $answer" >&2
  return 1
}

choose
echo "$arm"
observe "$ticket" 1.0
