// Uses most of what kafkajs can ask a broker for, and prints what it saw as JSON.
//
// Arguments: the address of a broker, a topic that does not exist yet.
const { CompressionTypes, ConfigResourceTypes, Kafka, Partitioners, logLevel } = require('kafkajs')

const [address, topic] = process.argv.slice(2)
const kafka = new Kafka({ brokers: [address], logLevel: logLevel.NOTHING })
const seen = {}

async function until(condition, what) {
  for (const end = Date.now() + 60000; Date.now() < end; ) {
    if (condition()) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(`${what}: not within 60 s`)
}

async function main() {
  const admin = kafka.admin()
  await admin.connect()
  seen.created = await admin.createTopics({ topics: [{ topic, numPartitions: 3 }], waitForLeaders: true })
  seen.listed = (await admin.listTopics()).includes(topic)
  seen.brokers = (await admin.describeCluster()).brokers.length
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
  const configEntries = [{ name: 'retention.ms', value: '3600000' }]
  await admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries }] })
  const described = await admin.describeConfigs({ resources: [{ ...resource, configNames: ['retention.ms'] }] })
  seen.retention = described.resources[0].configEntries[0].configValue
  await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] })

  const producer = kafka.producer({ idempotent: true, createPartitioner: Partitioners.DefaultPartitioner })
  await producer.connect()
  const messages = Array.from({ length: 1000 }, (_, n) => ({ key: `${n % 17}`, value: `${n}`, headers: { name: 'value' } }))
  await producer.send({ topic, messages, acks: -1, compression: CompressionTypes.GZIP })
  await producer.send({ topic, messages: [{ key: null, value: null, partition: 3 }], acks: -1 })
  seen.ends = (await admin.fetchTopicOffsets(topic)).reduce((sum, { offset }) => sum + Number(offset), 0)

  const counts = new Map()
  const consumers = []
  for (const _ of [1, 2]) {
    const consumer = kafka.consumer({ groupId: topic, heartbeatInterval: 200, maxWaitTimeInMs: 200 })
    consumers.push(consumer)
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({
      autoCommitInterval: 200,
      eachMessage: async ({ partition, message }) => {
        const place = `${partition}:${message.offset}`
        counts.set(place, (counts.get(place) || 0) + 1)
      },
    })
  }
  await until(() => counts.size === 1001, 'all records')
  const group = (await admin.describeGroups([topic])).groups[0]
  seen.members = group.members.length
  for (const consumer of consumers) await consumer.disconnect()
  const offsets = await admin.fetchOffsets({ groupId: topic, topics: [topic] })
  seen.committed = offsets[0].partitions.reduce((sum, { offset }) => sum + Number(offset), 0)
  await admin.setOffsets({ groupId: topic, topic, partitions: [{ partition: 0, offset: '0' }] })

  const transactional = kafka.producer({ transactionalId: topic, maxInFlightRequests: 1, idempotent: true,
    createPartitioner: Partitioners.DefaultPartitioner })
  await transactional.connect()
  const aborted = await transactional.transaction()
  await aborted.send({ topic, messages: [{ value: 'aborted' }] })
  await aborted.abort()
  const committed = await transactional.transaction()
  await committed.send({ topic, messages: [{ value: 'committed' }] })
  const partitions = [{ partition: 0, offset: '7' }]
  await committed.sendOffsets({ consumerGroupId: topic, topics: [{ topic, partitions }] })
  await committed.commit()
  const after = (await admin.fetchOffsets({ groupId: topic, topics: [topic] }))[0].partitions
  seen.offsetOfTransaction = after.find(({ partition }) => partition === 0).offset

  const values = []
  const reader = kafka.consumer({ groupId: `${topic}-reader`, maxWaitTimeInMs: 200 })
  await reader.connect()
  await reader.subscribe({ topic, fromBeginning: true })
  await reader.run({
    eachBatch: async ({ batch }) => { for (const { value } of batch.messages) values.push(`${value}`) },
  })
  await until(() => values.length >= 1002, 'the committed record')
  seen.aborted = values.includes('aborted')
  seen.committedIsRead = values.includes('committed')
  await reader.disconnect()

  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '5' }] })
  seen.first = (await admin.fetchTopicOffsets(topic)).find(({ partition }) => partition === 0).low
  seen.deleted = (await admin.deleteGroups([topic, `${topic}-reader`])).every(({ errorCode }) => errorCode === 0)
  await admin.deleteTopics({ topics: [topic] })
  for (const client of [producer, transactional, admin]) await client.disconnect()
  console.log(JSON.stringify(seen))
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1) })
