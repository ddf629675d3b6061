// A receiver of Sluice's webhooks for any Node from 18 on, without dependencies. It checks each signature, and prints
// each delivery once, however often it comes:
//   SLUICE_WEBHOOK_SECRET=… node docs/example/receive-webhooks.mjs
// It listens on 127.0.0.1:9000, or on PORT.
import { Buffer } from 'node:buffer'
import console from 'node:console'
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'
import process from 'node:process'

const secret = process.env.SLUICE_WEBHOOK_SECRET
if (!secret) {
  console.error('SLUICE_WEBHOOK_SECRET is not set: Sluice shows it once, when the webhook is made')
  process.exit(2)
}

const toleranceMs = 5 * 60 * 1000

/** `headers` as node:http gives them; `rawBody` is a Buffer of the body as it came, before any parsing. */
export function verify(headers, rawBody, secret, nowMs = Date.now()) {
  const timestamp = headers['x-svc-timestamp'] ?? ''
  if (!/^\d{1,15}$/.test(timestamp) || Math.abs(nowMs - Number(timestamp)) > toleranceMs) return false
  const expected = createHmac('sha256', secret).update(`${timestamp}.`).update(rawBody).digest('hex')
  return ['x-svc-signature', 'x-svc-signature-previous'].some((name) => isEqual(headers[name] ?? '', expected))
}

function isEqual(given, expected) {
  return (
    given.length === expected.length && timingSafeEqual(Buffer.from(given, 'latin1'), Buffer.from(expected, 'latin1'))
  )
}

const maxBodyBytes = 1_048_576
/** Ids of deliveries that were handled. A real receiver stores them with what it does, in one transaction. */
const handled = new Set()

/** The status to answer with. */
function receive(headers, rawBody) {
  if (!verify(headers, rawBody, secret)) {
    console.log('refused: the signature is not of this secret, or the timestamp is old')
    return 401
  }
  const id = headers['x-svc-delivery']
  if (handled.has(id)) {
    console.log(`${id} came again`)
    return 204
  }
  console.log(`${id} ${rawBody}`)
  handled.add(id)
  return 204
}

const server = createServer((request, response) => {
  const chunks = []
  let bytes = 0
  request.on('data', (chunk) => {
    bytes += chunk.length
    if (bytes <= maxBodyBytes) chunks.push(chunk)
  })
  request.on('end', () => {
    response.writeHead(bytes > maxBodyBytes ? 413 : receive(request.headers, Buffer.concat(chunks))).end()
  })
})
server.listen(Number(process.env.PORT ?? 9000), '127.0.0.1', () => {
  console.log(`Waiting for deliveries at http://127.0.0.1:${server.address().port}/`)
})
