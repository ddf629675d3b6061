// A gateway without checks: node:http, JSON.parse, one Kafka record for each event by kafkajs with acks -1. Requests
// that arrive within 1 ms share a publish.
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Kafka, logLevel, type Message, Partitioners } from 'kafkajs'
import { announce } from './child.ts'

const lingerMs = 1
const kafka = new Kafka({ brokers: [process.env.BROKERS ?? ''], logLevel: logLevel.ERROR })
const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner })
await producer.connect()

let messages: Message[] = []
let responses: ServerResponse[] = []

function publish(): void {
  const answered = responses
  const sent = producer.send({ topic: process.env.TOPIC ?? '', acks: -1, messages })
  messages = []
  responses = []
  const answer = (status: number): void => {
    for (const response of answered) {
      response.writeHead(status, { 'Content-Type': 'application/json' })
      response.end(`{"success":${status === 202},"timestamp":${Date.now()}}`)
    }
  }
  sent.then(
    () => answer(202),
    () => answer(503),
  )
}

const server = createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    const body = JSON.parse(Buffer.concat(chunks).toString('utf8')) as { events?: object[] }
    if (responses.length === 0) setTimeout(publish, lingerMs)
    for (const event of body.events ?? [body]) messages.push({ value: JSON.stringify(event) })
    responses.push(response)
  })
})
server.listen(0, '127.0.0.1', () => {
  announce((server.address() as AddressInfo).port)
})
process.on('SIGTERM', () => process.exit(0))
