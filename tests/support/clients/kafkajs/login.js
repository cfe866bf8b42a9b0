// Logs in with kafkajs by each mechanism, writes a record and reads it back, and prints what it saw as JSON.
//
// Argument: JSON with a topic and a list of logins, each with an address, a mechanism, a user, a password, and perhaps a
// file with the authority of a TLS listener.
const fs = require('fs')
const { Kafka, logLevel } = require('kafkajs')

const { topic, logins } = JSON.parse(process.argv[2])

async function play({ address, mechanism, user, password, authority }, name) {
  const kafka = new Kafka({
    brokers: [address],
    logLevel: logLevel.NOTHING,
    sasl: { mechanism: mechanism.toLowerCase(), username: user, password },
    ssl: authority ? { ca: [fs.readFileSync(authority)] } : false,
    retry: { retries: 2 },
  })
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic: name }], waitForLeaders: true })
  await admin.disconnect()
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic: name, messages: [{ value: mechanism }] })
  await producer.disconnect()
  const consumer = kafka.consumer({ groupId: name, maxWaitTimeInMs: 100 })
  await consumer.connect()
  await consumer.subscribe({ topics: [name], fromBeginning: true })
  const found = await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error('no record within 60 s')), 60000).unref()
    consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) }).catch(reject)
  })
  await consumer.disconnect()
  return found
}

async function main() {
  const seen = []
  for (const [number, login] of logins.entries()) {
    seen.push(await play(login, `${topic}-${number}`).catch((error) => `error: ${error.message}`))
  }
  console.log(JSON.stringify(seen))
}

main()
