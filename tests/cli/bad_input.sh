#!/bin/sh
# Bad input gets one line that names the setting, and exit status 2.
passing=$1
failed=0
expect() {
  wanted=$1
  shift
  output=$("$passing" "$@" 2>&1)
  status=$?
  if [ $status -ne 2 ]; then
    echo "passing $*: exit status $status, not 2"
    failed=1
  fi
  case $output in
    *"$wanted"*) ;;
    *) echo "passing $*: '$output' does not name $wanted"; failed=1 ;;
  esac
}
expect "--slots" rehearse --demo --slots x
expect "slots is 3" rehearse --demo --slots 3
expect "slots is 0" rehearse --demo --slots 0
expect "slots is 65536" rehearse --demo --slots 65536
expect "--members" rehearse --demo --members 65
expect "--members" rehearse --demo --members 0
expect "--loss" rehearse --demo --loss 51
expect "--seed" rehearse --seed -1
expect "--nonsense" rehearse --nonsense
expect "subcommand" 
exit $failed
