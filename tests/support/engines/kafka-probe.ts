import { connect } from 'node:net'

const metadata = 3
const version = 1
const correlationId = 1
const noClientId = -1
const timeoutMs = 2_000

/**
 * True when a broker takes requests and has joined its cluster: it answers a Metadata request with at least one broker.
 * Written by hand because the client library belongs to event-log.
 * https://kafka.apache.org/protocol#The_Messages_Metadata
 */
export async function kafkaAnswers(host: string, port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connect(port, host)
    let received = Buffer.alloc(0)
    const end = (answers: boolean): void => {
      socket.destroy()
      resolve(answers)
    }
    socket.setTimeout(timeoutMs, () => end(false))
    socket.on('error', () => end(false))
    socket.on('close', () => end(false))
    socket.on('connect', () => socket.write(metadataRequest()))
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk])
      // Size, correlation id, number of brokers.
      if (received.length >= 12) end(received.readInt32BE(4) === correlationId && received.readInt32BE(8) > 0)
    })
  })
}

function metadataRequest(): Buffer {
  const request = Buffer.alloc(18)
  request.writeInt32BE(request.length - 4, 0)
  request.writeInt16BE(metadata, 4)
  request.writeInt16BE(version, 6)
  request.writeInt32BE(correlationId, 8)
  request.writeInt16BE(noClientId, 12)
  request.writeInt32BE(0, 14) // of no topics
  return request
}
