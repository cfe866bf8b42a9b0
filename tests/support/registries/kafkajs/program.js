// Uses a registry with kafkajs' client of it, reads values that others wrote, and prints what it saw as JSON.
//
// Arguments: the address of the registry, a prefix of subjects, and values in hexadecimal.
const { COMPATIBILITY, SchemaRegistry, SchemaType } = require('@kafkajs/confluent-schema-registry')

const [host, prefix, ...values] = process.argv.slice(2)
const order = { id: 7, customer: 'alice' }
const fields = [{ name: 'id', type: 'long' }, { name: 'customer', type: 'string' }]
const later = [...fields, { name: 'note', type: 'string', default: '' }]
const avro = (of) => ({ type: SchemaType.AVRO, schema: JSON.stringify({ type: 'record', name: 'Order', namespace: 'shop', fields: of }) })
const schemas = {
  avro: avro(fields),
  json: {
    type: SchemaType.JSON,
    schema: JSON.stringify({ type: 'object', properties: { id: { type: 'integer' }, customer: { type: 'string' } } }),
  },
  protobuf: {
    type: SchemaType.PROTOBUF,
    schema: 'syntax = "proto3";\npackage shop;\nmessage Order {\n  int64 id = 1;\n  string customer = 2;\n}\n',
  },
}

async function failure(call) {
  try {
    await call()
  } catch (error) {
    return { status: error.status, message: error.message }
  }
  return null
}

async function main() {
  const registry = new SchemaRegistry({ host, retry: { retries: 0 } })
  const seen = { ids: {}, same: {}, written: {}, read: [] }
  for (const [name, schema] of Object.entries(schemas)) {
    const subject = `${prefix}-${name}`
    const { id } = await registry.register(schema, { subject })
    seen.ids[name] = id
    const found = [
      (await registry.register(schema, { subject })).id,
      await registry.getLatestSchemaId(subject),
      await registry.getRegistryId(subject, 1),
      await registry.getRegistryIdBySchema(subject, schema),
    ]
    seen.same[name] = found.every((each) => each === id)
    seen.written[name] = (await registry.encode(id, order)).toString('hex')
  }
  const fresh = new SchemaRegistry({ host })
  for (const value of values) seen.read.push(await fresh.decode(Buffer.from(value, 'hex')))
  const subject = `${prefix}-avro`
  seen.second = (await registry.register(avro(later), { subject })).id
  seen.latest = await registry.getLatestSchemaId(subject)
  seen.incompatible = await failure(() => registry.register(avro([{ name: 'id', type: 'string' }]), { subject }))
  seen.unknown = await failure(() => registry.getSchema(999999))
  const none = { compatibility: COMPATIBILITY.NONE, subject: `${prefix}-none` }
  await registry.register(schemas.avro, none)
  seen.otherLevel = await failure(() => registry.register(schemas.avro, { ...none, compatibility: COMPATIBILITY.FULL }))
  console.log(JSON.stringify(seen, (_, value) => (typeof value === 'bigint' ? Number(value) : value)))
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
