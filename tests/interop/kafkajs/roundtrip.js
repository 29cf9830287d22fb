// Reads {bootstrap, topic, codec, acks, records} from standard input, produces the records, consumes them in a group
// and prints what came back. Byte strings are base64.
import { readFileSync } from 'node:fs'
import kafkajs from 'kafkajs'
import SnappyCodec from 'kafkajs-snappy'
import lz4 from 'lz4js'
import { init, compress, decompress } from '@bokuweb/zstd-wasm'

const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = kafkajs
CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => Buffer.from(lz4.compress(encoder.buffer)),
  decompress: async buffer => Buffer.from(lz4.decompress(buffer)),
})
await init()
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from(compress(encoder.buffer, 3)),
  decompress: async buffer => Buffer.from(decompress(buffer)),
})
const codecs = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

const bytes = text => (text === null ? null : Buffer.from(text, 'base64'))
const text = buffer => (buffer === null || buffer === undefined ? null : Buffer.from(buffer).toString('base64'))

const job = JSON.parse(readFileSync(0, 'utf-8'))
const kafka = new Kafka({ clientId: 'interop', brokers: [job.bootstrap], logLevel: logLevel.ERROR })
const admin = kafka.admin()
await admin.connect()
await admin.createTopics({ topics: [{ topic: job.topic, numPartitions: 1, replicationFactor: 1 }] })
await admin.disconnect()

const producer = kafka.producer({ idempotent: job.idempotent })
await producer.connect()
for (const record of job.records) {
  await producer.send({
    topic: job.topic,
    acks: job.acks,
    compression: codecs[job.codec],
    messages: [
      {
        key: bytes(record.key),
        value: bytes(record.value),
        headers: Object.fromEntries(record.headers.map(([name, value]) => [name, bytes(value)])),
        timestamp: String(record.timestamp),
      },
    ],
  })
}
await producer.disconnect()

const consumer = kafka.consumer({ groupId: `group-of-${job.topic}` })
await consumer.connect()
await consumer.subscribe({ topic: job.topic, fromBeginning: true })
const received = []
await new Promise((resolve, reject) => {
  setTimeout(() => reject(new Error(`only ${received.length} of ${job.records.length} records came`)), 60000).unref()
  consumer.run({
    eachMessage: async ({ message }) => {
      received.push({
        key: text(message.key),
        value: text(message.value),
        headers: Object.entries(message.headers).flatMap(([name, values]) =>
          [values].flat().map(value => [name, text(value)])),
        timestamp: Number(message.timestamp),
        offset: Number(message.offset),
      })
      if (received.length === job.records.length) resolve()
    },
  })
})
await consumer.disconnect()
console.log(JSON.stringify(received))
