// The smallest server that accepts an event: it reads, parses and answers 202, without storage and credentials.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { announce } from './child.ts'

const server = createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    JSON.parse(Buffer.concat(chunks).toString('utf8'))
    response.writeHead(202, { 'Content-Type': 'application/json' })
    response.end(`{"success":true,"timestamp":${Date.now()}}`)
  })
})
server.listen(0, '127.0.0.1', () => {
  announce((server.address() as AddressInfo).port)
})
process.on('SIGTERM', () => process.exit(0))
