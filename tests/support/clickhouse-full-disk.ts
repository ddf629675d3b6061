import { createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'

/** A ClickHouse whose disk is full, as it answers statements of exports. */
export interface FullDiskClickHouse {
  /** To be used in place of the origin of the ClickHouse. */
  readonly origin: string
  /** Bytes of each result that are answered; 0 at first, as by a disk that takes none. Infinity: there is room again. */
  bytesMax: number
  close(): Promise<void>
}

/**
 * A proxy before a ClickHouse. Results in JSON, which are those of other statements, pass. Of the others only the first
 * bytes do, behind the whole status and the headers.
 */
export async function fullDiskClickHouse(origin: string): Promise<FullDiskClickHouse> {
  const disk = { bytesMax: 0 }
  const server = createServer((request, response) => {
    const { method, headers } = request
    const onward = httpRequest(new URL(request.url ?? '/', origin), { method, headers }, (answer) => {
      void buffer(answer).then((body) => {
        const isJson = answer.headers['x-clickhouse-format'] === 'JSON'
        response.writeHead(answer.statusCode ?? 502, answer.headers)
        response.end(isJson || answer.statusCode !== 200 ? body : body.subarray(0, disk.bytesMax))
      })
    })
    request.pipe(onward)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return Object.assign(disk, {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  })
}
