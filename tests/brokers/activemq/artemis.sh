#!/usr/bin/env bash
# ActiveMQ Artemis for tests: one broker with OpenWire and a journal on disk, from its Maven coordinates.
#
#   artemis.sh fetch         fetch the server into the cache
#   artemis.sh start         start it, with the data that is there
#   artemis.sh stop          SIGTERM and wait
#   artemis.sh kill          SIGKILL
#   artemis.sh restart       stop, then start; after a kill: start
#   artemis.sh freeze|thaw   SIGSTOP, SIGCONT
#   artemis.sh status
#   artemis.sh url           its OpenWire address
#   artemis.sh queue NAME    what the broker counts of a queue, as JSON
#
# Environment beside that of ../lib.sh:
#   ARTEMIS_VERSION   2.40.0
#   ARTEMIS_PORT      the first of two neighbouring ports (default 61716): OpenWire, and the MBeans over HTTP
#   BROKER_INACTIVITY how long a peer may say nothing, in milliseconds (default 30000)
#
# Anybody may do anything. Queues are made as they are used and have one consumer at a time (`exclusive`), but for those
# below `shared.`. A message that comes for the eleventh time goes to the queue DLQ, as what is given up does.

name=artemis
. "$(dirname "${BASH_SOURCE[0]}")/servers.sh"

version=${ARTEMIS_VERSION:-2.40.0}
port=${ARTEMIS_PORT:-61716}
server=$cache/artemis-$version
instance=$state/instance

copy_server() {
  mkdir -p "$1"
  copy_artifact "org.apache.activemq:apache-artemis:$version:tar.gz:bin" "$1/archive"
  tar --extract --gzip --file "$1/archive/apache-artemis-$version-bin.tar.gz" --directory "$1" --strip-components 1
  rm -rf "$1/archive" "$1/examples" "$1/web"
}

fetch() {
  once "$agent" copy_agent
  once "$server" copy_server
}

# --- configuration ---------------------------------------------------------

create_instance() {
  [ ! -d "$instance" ] || return 0
  mkdir -p "$state/log"
  "$server/bin/artemis" create "$instance" --silent --user admin --password admin-secret --allow-anonymous --no-web \
    --nio --no-autotune >"$state/log/create.out" 2>&1 ||
    { cat "$state/log/create.out" >&2; die "the instance could not be made"; }
}

# Written at every start, so that a changed port takes effect.
write_conf() {
  local permission
  mkdir -p "$state/tmp"
  # Who asks for an MBean over HTTP gives no name.
  sed -i 's/domain="hawtio"/domain="org.apache.activemq.artemis"/' "$instance/etc/management.xml"
  cat >"$instance/etc/broker.xml" <<XML
<configuration xmlns="urn:activemq">
 <core xmlns="urn:activemq:core">
  <name>t</name>
  <journal-type>NIO</journal-type>
  <paging-directory>data/paging</paging-directory>
  <bindings-directory>data/bindings</bindings-directory>
  <journal-directory>data/journal</journal-directory>
  <large-messages-directory>data/large-messages</large-messages-directory>
  <journal-min-files>2</journal-min-files>
  <journal-file-size>10M</journal-file-size>
  <max-disk-usage>100</max-disk-usage>
  <acceptors>
   <acceptor name="all">tcp://$bind:$port?protocols=OPENWIRE;maxInactivityDuration=$inactivity</acceptor>
  </acceptors>
  <security-settings><security-setting match="#">
$(for permission in createNonDurableQueue deleteNonDurableQueue createDurableQueue deleteDurableQueue createAddress \
    deleteAddress consume browse send manage view edit; do
    printf '   <permission type="%s" roles="amq"/>\n' "$permission"
  done)
  </security-setting></security-settings>
  <address-settings>
   <address-setting match="#">
    <dead-letter-address>DLQ</dead-letter-address>
    <expiry-address>ExpiryQueue</expiry-address>
    <max-delivery-attempts>10</max-delivery-attempts>
    <default-exclusive-queue>true</default-exclusive-queue>
    <auto-delete-queues>false</auto-delete-queues>
    <auto-delete-addresses>false</auto-delete-addresses>
   </address-setting>
   <address-setting match="shared.#">
    <default-exclusive-queue>false</default-exclusive-queue>
   </address-setting>
  </address-settings>
  <addresses>
   <address name="DLQ"><anycast><queue name="DLQ" exclusive="false"/></anycast></address>
   <address name="ExpiryQueue"><anycast><queue name="ExpiryQueue"/></anycast></address>
  </addresses>
 </core>
</configuration>
XML
}

# --- the broker --------------------------------------------------------------

# It has said so since its last start.
serves() { awk '/^--- starts/ { up = 0 } /AMQ221007/ { up = 1 } END { exit !up }' "$state/log/broker.out"; }

start() {
  pid_of broker >/dev/null && return 0
  fetch
  must_be_free "$port"
  must_be_free $((port + 1))
  create_instance
  write_conf
  mkdir -p "$state/log"
  echo "--- starts" >>"$state/log/broker.out"
  spawn broker env JAVA_ARGS="-Xms64m -Xmx256m -XX:+UseSerialGC $(agent_flag $((port + 1))) -Duser.home=$state \
    -Djava.io.tmpdir=$state/tmp --add-opens java.base/jdk.internal.misc=ALL-UNNAMED" "$instance/bin/artemis" run
  await broker serves
  say "$version ready, OpenWire $reach:$port"
}

queue() {
  local bean="org.apache.activemq.artemis:broker=\\\"t\\\",component=addresses,address=\\\"$1\\\",subcomponent=queues,routing-type=\\\"anycast\\\",queue=\\\"$1\\\""
  curl --silent --show-error --max-time 30 --data "{\"type\":\"read\",\"mbean\":\"$bean\"}" "http://$reach:$((port + 1))/jolokia/"
}

case ${1:-} in
  fetch) fetch ;;
  start) start ;;
  stop) stop_node broker ;;
  kill) kill_node broker ;;
  restart) start_again ;;
  freeze) signal_node STOP broker ;;
  thaw) signal_node CONT broker ;;
  status) status_of broker ;;
  url) echo "tcp://$advertise:$port" ;;
  queue) queue "$2" ;;
  *) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
