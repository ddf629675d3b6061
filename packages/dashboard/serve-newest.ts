import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { extname, join } from 'node:path'
import { contentTypes } from './load.ts'

const port = 8090

/**
 * For work on the dashboard: serves the newest build of `dist` at http://localhost:8090, and passes everything else on
 * to a running Sluice at `target`, which had read the build of its start. The page has the headers of Sluice, so that
 * its content security policy holds here too.
 */
export function serveNewest(dist: string, target: URL): void {
  const server = createServer((incoming, response) => {
    const [path = ''] = (incoming.url ?? '').split('?', 1)
    const sent = path.startsWith('/assets/')
      ? sendAsset(dist, path, response)
      : passOn(dist, target, incoming, response)
    sent.catch((error: unknown) => {
      response.writeHead(502, { 'Content-Type': 'text/plain' }).end(String(error))
    })
  })
  server.listen(port, '127.0.0.1', () => {
    process.stdout.write(`The newest build, in front of ${target.origin}: http://localhost:${port}\n`)
  })
}

async function sendAsset(dist: string, path: string, response: ServerResponse): Promise<void> {
  const bytes = await readFile(join(dist, new URL(path, 'http://localhost').pathname)).catch(() => undefined)
  const headers = { 'Content-Type': contentTypes[extname(path)] ?? 'text/plain', 'Cache-Control': 'no-store' }
  response.writeHead(bytes === undefined ? 404 : 200, headers).end(bytes)
}

async function passOn(dist: string, target: URL, incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method, url, headers } = incoming
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const sent = request(target, { method, path: url, headers: { ...headers, 'accept-encoding': 'identity' } }, resolve)
    sent.on('error', reject)
    incoming.pipe(sent)
  })
  const isDashboard = String(answer.headers['content-security-policy']).includes('require-trusted-types-for')
  if (!isDashboard) {
    response.writeHead(answer.statusCode ?? 502, answer.headers)
    answer.pipe(response)
    return
  }
  answer.resume()
  const { etag: _, 'content-length': __, ...kept } = answer.headers
  response.writeHead(200, { ...kept, 'cache-control': 'no-store' }).end(await readFile(join(dist, 'index.html')))
}
