import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { isIPv6 } from 'node:net'
import ipaddr from 'ipaddr.js'

type RecordType = 'A' | 'AAAA'

/**
 * Decides the response about a name, for each query: addresses, `unknown` for a name that does not exist, `failing` for
 * a server that can't answer (SERVFAIL), `refused` for one that does not want to (REFUSED), or `silent` for no response.
 * Addresses of the family that was not asked for are left out; if none remains, the response says that there is no such record.
 */
export type Answer = (name: string, type: RecordType) => readonly string[] | keyof typeof failures | 'silent'

export interface DnsServer {
  /** For `setServers` of node:dns. */
  address: string
  close(): void
}

/** The flags and the code of a response without records. */
const failures = { unknown: 0x8183, failing: 0x8182, refused: 0x8185 } as const

const typeCodes: Readonly<Record<RecordType, number>> = { A: 1, AAAA: 28 }

/** A server of DNS on loopback (UDP) whose records live for 0 s. */
export async function startDnsServer(answer: Answer): Promise<DnsServer> {
  const socket = createSocket('udp4')
  socket.on('message', (query, { port, address }) => {
    const response = respond(query, answer)
    if (response) socket.send(response, port, address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  return { address: `127.0.0.1:${socket.address().port}`, close: () => socket.close() }
}

/** RFC 1035, 4.1: the header and the question of the query, and one record for each address. */
function respond(query: Buffer, answer: Answer): Buffer | undefined {
  const { name, end } = readName(query)
  const code = query.readUInt16BE(end)
  const type: RecordType | undefined = code === 1 ? 'A' : code === 28 ? 'AAAA' : undefined
  const said = type ? answer(name, type) : []
  if (said === 'silent') return undefined
  const addresses = typeof said === 'string' ? [] : said.filter((each) => isIPv6(each) === (type === 'AAAA'))
  const header = Buffer.alloc(12)
  header.writeUInt16BE(query.readUInt16BE(0), 0)
  header.writeUInt16BE(typeof said === 'string' ? failures[said] : 0x8180, 2)
  header.writeUInt16BE(1, 4)
  header.writeUInt16BE(addresses.length, 6)
  const records = addresses.map((each) => record(type ?? 'A', Buffer.from(ipaddr.parse(each).toByteArray())))
  return Buffer.concat([header, query.subarray(12, end + 4), ...records])
}

function readName(query: Buffer): { name: string; end: number } {
  const labels: string[] = []
  let at = 12
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += length + 1
  }
  return { name: labels.join('.'), end: at + 1 }
}

/** The name is a pointer to the question's. */
function record(type: RecordType, data: Buffer): Buffer {
  const head = Buffer.alloc(12)
  head.writeUInt16BE(0xc00c, 0)
  head.writeUInt16BE(typeCodes[type], 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt32BE(0, 6)
  head.writeUInt16BE(data.length, 10)
  return Buffer.concat([head, data])
}
