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
expect "--slots: 'x': must be 0 to 4294967295" rehearse --demo --slots x
expect "slots is 3: must be a power of two from 1 to 32768" rehearse --demo --slots 3
expect "slots is 0: must be" rehearse --demo --slots 0
expect "slots is 65536: must be" rehearse --demo --slots 65536
expect "--members: '65': must be 1 to 64" rehearse --demo --members 65
expect "--members: '0': must be 1 to 64" rehearse --demo --members 0
expect "--loss" rehearse --demo --loss 51
expect "--seed: '-1': must be 0 to" rehearse --seed -1
expect "--members requires --demo" rehearse --members 4
expect "--trace" rehearse --demo --trace
expect "--nonsense" rehearse --nonsense
expect "--json: cannot write '/nowhere/at/all.json'" bench --json /nowhere/at/all.json
expect "--json: cannot write '/nowhere/at/all.json'" lab run --json /nowhere/at/all.json -- true
expect "--index is 2: must be below --of, 2" server --listen 127.0.0.1:0 --index 2 --of 2
expect "--index is 1: must be below --of, 1" server --listen 127.0.0.1:0 --index 1
expect "--index: '-1': must be 0 to 1023" server --index -1
expect "--index: 'x': must be 0 to 1023" server --index x
expect "--of: '0': must be 1 to 1024" server --of 0
expect "--of: '1025': must be 1 to 1024" server --of 1025
expect "--listen: address 'nowhere:x'" server --listen nowhere:x
expect "--listen: address '127.0.0.1:65536'" server --listen 127.0.0.1:65536
expect "--listen: cannot listen at 192.0.2.1:9100" server --listen 192.0.2.1
expect "--threads" server --threads 2
expect "--servers: '17': must be 0 to 16" lab run --servers 17 -- true
expect "--rate: 'fast': must be a rate as tc writes it" lab run --rate fast -- true
expect "--racks: '3': there are only 2 hosts" lab run --hosts 2 --racks 3 -- true
expect "--name: 'no/name': must be 1 to 32 letters" lab up --name no/name
expect "lab: link: nothing to change" lab link host0
expect "--loss" lab link host0 --loss 51
expect "--hosts: '1': must be 2 to 32" lab demo --hosts 1
expect "--elements: '0': must be 1 to 1000000000" lab demo --elements 0
expect "--servers: 'x': must be 0 to 16" lab run --servers x -- true
expect "subcommand"
exit $failed
