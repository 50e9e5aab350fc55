#!/usr/bin/env bash
# Apache RocketMQ for tests: a name server and one or two masters, from their Maven coordinates.
#
#   rocketmq.sh fetch               fetch the servers into the cache
#   rocketmq.sh start [NODE...]     nodes: namesrv broker-a broker-b; without nodes namesrv and broker-a
#   rocketmq.sh stop [NODE...]      SIGTERM and wait; without nodes all
#   rocketmq.sh kill [NODE...]      SIGKILL; without nodes all
#   rocketmq.sh freeze|thaw NODE    SIGSTOP, SIGCONT
#   rocketmq.sh status
#   rocketmq.sh admin ARGUMENT...   one mqadmin command; it exits with 0 on errors too, so read what it says
#   rocketmq.sh admin-batch         mqadmin commands from standard input, one a line, in one JVM
#   rocketmq.sh peer CLASS ARG...   the Java peer: Consume, Post or Produce (java-peer/)
#   rocketmq.sh peer-classpath      its class path, built where it is not there
#
# Environment beside that of ../lib.sh:
#   ROCKETMQ_VERSION        5.5.0 or 4.9.7 (default 5.5.0)
#   ROCKETMQ_NAMESRV_PORT   default 9876
#   ROCKETMQ_BROKER_PORT    default 10911; broker-b listens 10 higher; each also takes its port - 2 and + 1
#   ROCKETMQ_LOCK_MS        how long a queue lock lives unrenewed (default 60000, as the product has it)
#   ROCKETMQ_AUTH           1 asks for signed requests: access key lockstep, secret key lockstep-secret (default 0)
#   ROCKETMQ_TLS            1 refuses plain connections, mutual asks for a client certificate too (default 0);
#                           $state/tls holds ca.crt, client.crt and client.key
#   ROCKETMQ_CONF           more lines for broker.conf

name=rocketmq
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

version=${ROCKETMQ_VERSION:-5.5.0}
namesrv_port=${ROCKETMQ_NAMESRV_PORT:-9876}
broker_port=${ROCKETMQ_BROKER_PORT:-10911}
lock_ms=${ROCKETMQ_LOCK_MS:-60000}
auth=${ROCKETMQ_AUTH:-0}
tls=${ROCKETMQ_TLS:-0}
namesrv=$reach:$namesrv_port
nodes=(namesrv broker-a broker-b)
jars=$cache/rocketmq-$version

# The servers write nowhere outside user.home, java.io.tmpdir and rocketmq.home.dir.
home_flags=("-Duser.home=$state" "-Djava.io.tmpdir=$state/tmp")
java_flags=(-XX:+UseSerialGC "${home_flags[@]}" "-Drocketmq.home.dir=$state"
  "-Drmq.logback.configurationFile=$state/conf/logback.xml"
  # 4.9 unmaps files by reflection, when it recovers from a crash too.
  --add-exports=java.base/sun.nio.ch=ALL-UNNAMED --add-opens=java.base/java.nio=ALL-UNNAMED
  --add-exports=java.base/jdk.internal.ref=ALL-UNNAMED)
[ "$tls" = 0 ] || java_flags+=("-Dtls.config.file=$state/conf/tls.properties" -Dtls.enable=true)

copy_servers() {
  mvn -B -q -f "$here/servers.pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
    -DincludeScope=runtime "-Dserver.version=$version" "-DoutputDirectory=$1"
}

peer_classpath() { java_peer "$name-java-peer" "$here/java-peer"; }

# --- configuration ---------------------------------------------------------

write_conf() {
  mkdir -p "$state/conf" "$state/tmp"
  # All loggers go to the node's output: queue locks too (logger RocketmqRebalanceLock).
  cat >"$state/conf/logback.xml" <<'XML'
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %p %c{0} - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="out"/></root>
</configuration>
XML
  # 4.9 insists on these two names.
  cp "$state/conf/logback.xml" "$state/conf/logback_namesrv.xml"
  cp "$state/conf/logback.xml" "$state/conf/logback_broker.xml"
  echo '<configuration><root level="OFF"/></configuration>' >"$state/conf/logback_tools.xml"
  # mqadmin signs with these whenever they stand here.
  printf 'accessKey: lockstep\nsecretKey: lockstep-secret\n' >"$state/conf/tools.yml"
  printf 'accounts:\n- {accessKey: lockstep, secretKey: lockstep-secret, admin: true}\n' >"$state/conf/plain_acl.yml"
  printf 'bindAddress=%s\nlistenPort=%s\n' "$bind" "$namesrv_port" >"$state/conf/namesrv.conf"
  [ "$tls" = 0 ] || write_tls
}

# write_cert NAME SUBJECT EXTENSION : a key and a certificate of our own authority.
write_cert() {
  openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -subj "$2" -out "$1.csr"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 \
    -extfile <(printf '%s\n' "$3") -out "$1.crt"
}

write_tls() {
  local need=none
  [ "$tls" != mutual ] || need=require
  if [ ! -f "$state/tls/done" ]; then
    mkdir -p "$state/tls"
    (
      cd "$state/tls"
      openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -subj "/CN=lockstep test authority" -days 30 -out ca.crt
      write_cert server /CN=rocketmq "subjectAltName=IP:127.0.0.1,IP:$advertise,DNS:localhost"
      write_cert client /CN=lockstep "extendedKeyUsage=clientAuth"
      touch "done"
    ) >/dev/null 2>&1 || die "openssl could not make the certificates"
  fi
  cat >"$state/conf/tls.properties" <<CONF
tls.server.mode=enforcing
tls.test.mode.enable=false
tls.server.need.client.auth=$need
tls.server.keyPath=$state/tls/server.key
tls.server.certPath=$state/tls/server.crt
tls.server.authClient=true
tls.server.trustCertPath=$state/tls/ca.crt
tls.client.keyPath=$state/tls/client.key
tls.client.certPath=$state/tls/client.crt
tls.client.authServer=true
tls.client.trustCertPath=$state/tls/ca.crt
CONF
}

# write_broker_conf NODE PORT
write_broker_conf() {
  cat >"$state/conf/$1.conf" <<CONF
brokerClusterName=DefaultCluster
brokerName=$1
brokerId=0
brokerRole=ASYNC_MASTER
bindAddress=$bind
listenPort=$2
brokerIP1=$advertise
brokerIP2=$advertise
namesrvAddr=$namesrv
storePathRootDir=$state/data/$1
storePathCommitLog=$state/data/$1/commitlog
autoCreateTopicEnable=false
autoCreateSubscriptionGroup=false
enablePropertyFilter=true
timerWheelEnable=false
flushDiskType=ASYNC_FLUSH
mappedFileSizeCommitLog=33554432
mappedFileSizeConsumeQueue=600000
maxIndexNum=1000
maxHashSlotNum=4000
diskMaxUsedSpaceRatio=95
registerNameServerPeriod=10000
waitTimeMillsInSendQueue=3000
osPageCacheBusyTimeOutMills=10000
${ROCKETMQ_CONF:-}
CONF
  case $auth-$version in
    0-*) ;;
    *-4.*) echo aclEnable=true >>"$state/conf/$1.conf" ;;
    *) cat >>"$state/conf/$1.conf" <<'CONF' ;;
authenticationEnabled=true
authenticationProvider=org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider
authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider
initAuthenticationUser={"username":"lockstep","password":"lockstep-secret"}
innerClientAuthenticationCredentials={"accessKey":"lockstep","secretKey":"lockstep-secret"}
CONF
  esac
}

# --- nodes -------------------------------------------------------------------

port_of() {
  case $1 in
    broker-a) echo "$broker_port" ;;
    broker-b) echo $((broker_port + 10)) ;;
    *) die "no node $1" ;;
  esac
}

# The frame of request 106, "which brokers are there": total length, header length, header. The name server does not
# close, so the answer is what has come after a moment.
ask_brokers() {
  local header='{"code":106,"language":"OTHER","version":0,"opaque":1,"flag":0,"serializeTypeCurrentRPC":"JSON"}'
  printf '%b%s' "$(printf '\\0\\0\\0\\x%02x\\0\\0\\0\\x%02x' $((4 + ${#header})) ${#header})" "$header"
  sleep 0.3
}

# registered NODE : the name server lists it. "boot success" comes up to 10 s before that.
registered() {
  local answer
  if [ "$tls" = 0 ]; then
    exec 3<>"/dev/tcp/$reach/$namesrv_port" || return 1
    ask_brokers >&3
    answer=$(timeout 0.2 cat <&3 | tr -d '\0' || true)
    exec 3>&-
  else
    answer=$(ask_brokers | timeout 5 openssl s_client -quiet -connect "$namesrv" -CAfile "$state/tls/ca.crt" \
      -cert "$state/tls/client.crt" -key "$state/tls/client.key" 2>/dev/null | tr -d '\0' || true)
  fi
  case $answer in *"\"$advertise:$(port_of "$1")\""*) ;; *) return 1 ;; esac
}

# must_be_free PORT : a stranger's server there would be taken for ours.
must_be_free() { ! port_open "$reach" "$1" || die "port $1 of $reach is taken: choose another"; }

start_node() {
  case $1 in
    namesrv)
      must_be_free "$namesrv_port"
      spawn namesrv java -Xms64m -Xmx128m "${java_flags[@]}" -cp "$jars/*" \
        org.apache.rocketmq.namesrv.NamesrvStartup -c "$state/conf/namesrv.conf"
      await namesrv port_open "$reach" "$namesrv_port"
      ;;
    *)
      must_be_free "$(port_of "$1")"
      write_broker_conf "$1" "$(port_of "$1")"
      spawn "$1" java -Xms192m -Xmx256m -XX:MaxDirectMemorySize=256m "${java_flags[@]}" \
        "-Drocketmq.broker.rebalance.lockMaxLiveTime=$lock_ms" -cp "$jars/*" \
        org.apache.rocketmq.broker.BrokerStartup -c "$state/conf/$1.conf"
      ;;
  esac
}

# serves NODE : it is registered. A JVM ends when a network interface vanishes while it lists them, as those of pods do:
# then it is started again.
serves() {
  registered "$1" && return 0
  pid_of "$1" >/dev/null && return 1
  ! tail -n 30 "$state/log/$1.out" | grep -q 'Failed to obtain local address' || start_node "$1"
  return 1
}

start() {
  local node
  [ $# -gt 0 ] || set -- namesrv broker-a
  once "$jars" copy_servers
  write_conf
  for node in "$@"; do
    pid_of "$node" >/dev/null || start_node "$node"
  done
  for node in "$@"; do
    [ "$node" = namesrv ] || await "$node" serves "$node"
  done
  say "$version ready, name server $namesrv"
}

stop() {
  local i
  [ $# -gt 0 ] || set -- "${nodes[@]}"
  for ((i = $#; i > 0; i--)); do stop_node "${!i}"; done
}

kill_nodes() {
  local node
  [ $# -gt 0 ] || set -- "${nodes[@]}"
  for node in "$@"; do kill_node "$node"; done
}

admin() {
  NAMESRV_ADDR=$namesrv java -Xmx128m -XX:TieredStopAtLevel=1 "${java_flags[@]}" \
    "-Drmq.logback.configurationFile=$state/conf/logback_tools.xml" -cp "$jars/*" "$@"
}

peer() {
  local class=$1 classpath
  shift
  classpath=$(peer_classpath)
  mkdir -p "$state/tmp"
  exec java -Xms64m -Xmx256m -XX:+UseSerialGC "${home_flags[@]}" -cp "$classpath" "lockstep.peer.$class" "$@"
}

case ${1:-} in
  fetch) once "$jars" copy_servers ;;
  start) shift; start "$@" ;;
  stop) shift; stop "$@" ;;
  kill) shift; kill_nodes "$@" ;;
  freeze) signal_node STOP "$2" ;;
  thaw) signal_node CONT "$2" ;;
  status) status_of "${nodes[@]}" ;;
  admin) shift; admin org.apache.rocketmq.tools.command.MQAdminStartup "$@" ;;
  admin-batch) admin "$here/AdminBatch.java" ;;
  peer) shift; peer "$@" ;;
  peer-classpath) peer_classpath ;;
  *) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
