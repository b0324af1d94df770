// One member of a group by kafkajs: node member.js BOOTSTRAP GROUP TOPIC STRATEGY NAME SESSION_MS CHOICES LOGIN
// It prints what Apache Kafka's VerifiableConsumer prints, commits each batch at once, and leaves on SIGTERM.

const { readFileSync } = require('fs')
const { Kafka, logLevel, AssignerProtocol } = require('kafkajs')
const { MemberMetadata, MemberAssignment } = AssignerProtocol

const [bootstrap, groupId, topic, strategy, name, session, choices, login] = process.argv.slice(2)
const { reset, metadata_ms: metadataMaxAge, pattern, pause_ms: pauseFor, note } = JSON.parse(choices)

const say = (event, fields) => console.log(JSON.stringify({ timestamp: Date.now(), name: event, ...fields }))
const places = owned =>
  Object.entries(owned).flatMap(([topic, partitions]) => partitions.map(partition => ({ topic, partition })))

// kafkajs brings one assigner, under a name of its own: Kafka's two are the member's, as its users write them.
const shares = {
  range: (partitions, members) => {
    const least = Math.floor(partitions.length / members.length)
    const extra = partitions.length % members.length
    const start = i => i * least + Math.min(i, extra)
    return members.map((_, i) => partitions.slice(start(i), start(i + 1)))
  },
  roundrobin: (partitions, members) => members.map((_, i) => partitions.filter((_, p) => p % members.length === i)),
}

const assigner = ({ cluster }) => ({
  name: strategy,
  version: 0,
  async assign({ members, topics }) {
    const sorted = members.map(member => member.memberId).sort()
    const shared = topics.map(one => {
      const partitions = cluster.findTopicPartitionMetadata(one).map(p => p.partitionId).sort((a, b) => a - b)
      return [one, shares[strategy](partitions, sorted)]
    })
    return sorted.map((memberId, i) => {
      const assignment = Object.fromEntries(shared.map(([one, given]) => [one, given[i]]))
      return { memberId, memberAssignment: MemberAssignment.encode({ version: 0, assignment, userData: Buffer.alloc(0) }) }
    })
  },
  protocol({ topics }) {
    return { name: strategy, metadata: MemberMetadata.encode({ version: 0, topics, userData: Buffer.alloc(0) }) }
  },
})

let owned = {}
let leaving = false
const revoke = event => {
  if (places(owned).length) say(event, { partitions: places(owned) })
  owned = {}
}

// With TLS in any case. A session is renewed when less than a second of it is left.
const security = () => {
  const user = JSON.parse(login)
  if (!user) return {}
  const { mechanism, user: username, password } = user
  const ssl = { ca: [readFileSync(user.cafile)] }
  return { ssl, sasl: { mechanism: mechanism.toLowerCase(), username, password }, reauthenticationThreshold: 1000 }
}

const main = async () => {
  const kafka = new Kafka({ clientId: name, brokers: bootstrap.split(","), logLevel: logLevel.WARN, ...security() })
  const consumer = kafka.consumer({
    groupId,
    partitionAssigners: [assigner],
    sessionTimeout: Number(session),
    heartbeatInterval: 400,
    maxWaitTimeInMs: 200,
    metadataMaxAge,
  })
  consumer.on(consumer.events.REBALANCING, () => revoke('partitions_revoked'))
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    // A join that no rebalancing announced: the coordinator had forgotten the member.
    if (leaving) return
    revoke('partitions_lost')
    owned = payload.memberAssignment
    say('partitions_assigned', { partitions: places(owned) })
    if (pauseFor) {
      const first = [{ topic, partitions: [0] }]
      consumer.pause(first)
      setTimeout(() => consumer.resume(first), pauseFor)
    }
  })
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    // It has left the group without a REBALANCING, and joins again later, if at all.
    revoke('partitions_lost')
    console.error(payload.error)
    if (!payload.restart) process.exit(1)
  })

  process.once('SIGTERM', async () => {
    await consumer.stop()
    leaving = true
    revoke('partitions_revoked')
    await consumer.disconnect()
    say('shutdown_complete')
    process.exit(0)
  })

  await consumer.connect()
  await consumer.subscribe({ topics: [pattern ? new RegExp(topic) : topic], fromBeginning: reset === 'earliest' })
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch, commitOffsetsIfNecessary }) => {
      const { topic, partition, messages } = batch
      for (const { offset, value } of messages) {
        if (value.toString() !== `${partition}:${offset}`) {
          say('record_data', { topic, partition, offset: Number(offset), value: value.toString() })
        }
      }
      const [first, last] = [Number(messages[0].offset), Number(messages[messages.length - 1].offset)]
      const count = messages.length
      say('records_consumed', { count, partitions: [{ topic, partition, count, minOffset: first, maxOffset: last }] })
      try {
        await commitOffsetsIfNecessary({ topics: [{ topic, partitions: [{ partition, offset: String(last + 1), metadata: note }] }] })
        say('offsets_committed', { success: true })
      } catch (error) {
        say('offsets_committed', { success: false, error: error.message })
        throw error
      }
    },
  })
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
