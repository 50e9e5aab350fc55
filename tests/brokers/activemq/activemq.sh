#!/usr/bin/env bash
# ActiveMQ Classic for tests: one broker with OpenWire and a KahaDB on disk, from its Maven coordinates.
#
#   activemq.sh fetch         fetch the server into the cache
#   activemq.sh start         start it, with the data that is there
#   activemq.sh stop          SIGTERM and wait
#   activemq.sh kill          SIGKILL
#   activemq.sh restart       stop, then start; after a kill: start
#   activemq.sh freeze|thaw   SIGSTOP, SIGCONT
#   activemq.sh status
#   activemq.sh url           its OpenWire address
#   activemq.sh queue NAME    what the broker counts of a queue, as JSON
#
# Environment beside that of ../lib.sh:
#   ACTIVEMQ_VERSION   6.3.1 or 5.17.2 (default 6.3.1)
#   ACTIVEMQ_PORT      the first of two neighbouring ports (default 61616): OpenWire, and the MBeans over HTTP
#   ACTIVEMQ_FRAME     the longest frame it takes, in bytes (default 104857600)
#   BROKER_INACTIVITY  how long a peer may say nothing, in milliseconds (default 30000)
#
# Who gives no name may use all queues, as app (app-secret) may. stranger (stranger-secret) may use those below `open.`,
# and blind (blind-secret) all queues but no advisory.
#
# Queues: `strict.` keep the order of what comes back, `slow.` take the consumer from who acknowledges nothing for 2 s; both
# count redeliveries in memory alone. The others write down before they send a message that it may be a redelivery, and count
# that too (`persistJMSRedelivered`). Each has its dead letters in DLQ.<its name>.

name=activemq
. "$(dirname "${BASH_SOURCE[0]}")/servers.sh"

version=${ACTIVEMQ_VERSION:-6.3.1}
port=${ACTIVEMQ_PORT:-61616}
frame=${ACTIVEMQ_FRAME:-104857600}
jars=$cache/activemq-$version

# What a version needs beside its own jars.
copy_jars() {
  local spring slf4j
  case $version in
    6.*) spring=7.0.8 slf4j=2.0.18 ;;
    5.*) spring=5.3.39 slf4j=1.7.36 ;;
    *) die "no version $version: choose 6.3.1 or 5.17.2" ;;
  esac
  mvn -B -q -f "$here/servers.pom.xml" "$dependency:copy-dependencies" -DincludeScope=runtime \
    "-Dserver.version=$version" "-Dspring.version=$spring" "-Dslf4j.version=$slf4j" "-DoutputDirectory=$1"
}

fetch() {
  once "$agent" copy_agent
  once "$jars" copy_jars
}

# --- configuration ---------------------------------------------------------

# policy QUEUES ATTRIBUTE [CHILD] : the narrowest that fits a queue holds for it, alone.
policy() {
  cat <<XML
    <policyEntry queue="$1" maxBrowsePageSize="10000" $2>
     <deadLetterStrategy>
      <individualDeadLetterStrategy queuePrefix="DLQ." processNonPersistent="true" enableAudit="false"/>
     </deadLetterStrategy>
     ${3:-}
    </policyEntry>
XML
}

# grant KIND NAMES GROUPS
grant() { printf '    <authorizationEntry %s="%s" read="%s" write="%s" admin="%s"/>\n' "$1" "$2" "$3" "$3" "$3"; }

# The children of broker must stand in this order, which is that of the alphabet.
write_conf() {
  local abort='<slowConsumerStrategy><abortSlowAckConsumerStrategy maxTimeSinceLastAck="2000" checkPeriod="500"
      maxSlowDuration="1000"/></slowConsumerStrategy>'
  mkdir -p "$state/conf" "$state/tmp"
  cat >"$state/conf/activemq.xml" <<XML
<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans http://www.springframework.org/schema/beans/spring-beans.xsd
    http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
 <broker xmlns="http://activemq.apache.org/schema/core" brokerName="t" persistent="true" dataDirectory="$state/data"
   useJmx="true">
  <destinationPolicy><policyMap><policyEntries>
$(policy '>' 'persistJMSRedelivered="true"')
$(policy 'strict.>' 'strictOrderDispatch="true"')
$(policy 'slow.>' '' "$abort")
$(policy 'DLQ.>' '')
  </policyEntries></policyMap></destinationPolicy>
  <managementContext><managementContext createConnector="false"/></managementContext>
  <persistenceAdapter><kahaDB directory="$state/data/kahadb" journalMaxFileLength="16mb"/></persistenceAdapter>
  <plugins>
   <simpleAuthenticationPlugin anonymousAccessAllowed="true" anonymousUser="nobody" anonymousGroup="users"><users>
    <authenticationUser username="app" password="app-secret" groups="users"/>
    <authenticationUser username="stranger" password="stranger-secret" groups="strangers"/>
    <authenticationUser username="blind" password="blind-secret" groups="blinds"/>
   </users></simpleAuthenticationPlugin>
   <authorizationPlugin><map><authorizationMap><authorizationEntries>
$(grant queue '>' users,blinds)
$(grant queue 'open.>' strangers)
$(grant topic 'ActiveMQ.Advisory.>' users,strangers)
   </authorizationEntries></authorizationMap></map></authorizationPlugin>
  </plugins>
  <systemUsage><systemUsage>
   <memoryUsage><memoryUsage limit="96 mb"/></memoryUsage>
   <storeUsage><storeUsage limit="2 gb"/></storeUsage>
   <tempUsage><tempUsage limit="256 mb"/></tempUsage>
  </systemUsage></systemUsage>
  <transportConnectors>
   <transportConnector name="openwire" uri="tcp://$bind:$port?wireFormat.maxFrameSize=$frame&amp;wireFormat.maxInactivityDuration=$inactivity"/>
  </transportConnectors>
 </broker>
</beans>
XML
}

# --- the broker --------------------------------------------------------------

# It has said so since its last start.
serves() {
  awk '/^--- starts/ { up = 0 } /ActiveMQ .*started/ { up = 1 } END { exit !up }' "$state/log/broker.out" &&
    port_open "$reach" "$port"
}

start() {
  pid_of broker >/dev/null && return 0
  fetch
  must_be_free "$port"
  must_be_free $((port + 1))
  write_conf
  mkdir -p "$state/log"
  echo "--- starts" >>"$state/log/broker.out"
  spawn broker java -Xms64m -Xmx192m -XX:+UseSerialGC "$(agent_flag $((port + 1)))" "-Djava.io.tmpdir=$state/tmp" \
    "-Duser.home=$state" "-Dactivemq.home=$state" "-Dactivemq.base=$state" "-Dactivemq.conf=$state/conf" \
    "-Dactivemq.data=$state/data" -cp "$state/conf:$jars/*" org.apache.activemq.console.Main start \
    "xbean:file:$state/conf/activemq.xml"
  await broker serves
  say "$version ready, OpenWire $reach:$port"
}

queue() {
  curl --silent --show-error --max-time 30 \
    "http://$reach:$((port + 1))/jolokia/read/org.apache.activemq:type=Broker,brokerName=t,destinationType=Queue,destinationName=$1"
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
