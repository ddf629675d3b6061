// Forwards /in/* of a website to Sluice, so that pages load the script from their own origin and send events to it:
//   <script defer src="/in/sluice.js" data-site="shop" data-key="<key of the page>"></script>
// Run as: SLUICE_URL=https://in.example PORT=8000 node first-party-proxy.mjs
import { createServer, request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import process from 'node:process'
import { pipeline } from 'node:stream'
import { URL } from 'node:url'

const sluice = new URL(process.env.SLUICE_URL ?? 'http://localhost:8080')
const send = sluice.protocol === 'https:' ? httpsRequest : httpRequest
/** The proxy forwards only these paths. */
const allowed = /^\/in(\/(sluice(\.[\d.]+)?\.js|collect|collect\/batch)(\?.*)?)$/

const server = createServer((request, response) => {
  const [, path] = allowed.exec(request.url ?? '') ?? []
  if (path === undefined) {
    response.writeHead(404).end()
    return
  }
  const headers = { ...request.headers, 'x-forwarded-for': request.socket.remoteAddress }
  for (const name of ['host', 'cookie', 'connection']) delete headers[name]
  // Sluice may limit the events of an IP address: set SLUICE_TRUSTED_PROXIES of Sluice to the address of this proxy.
  const forwarded = send(new URL(path, sluice), { method: request.method, headers })
  forwarded.on('response', (answer) => {
    response.writeHead(answer.statusCode, answer.headers)
    // An answer that is cut off ends the response, too.
    pipeline(answer, response, () => {})
  })
  // After a 502 the SDK sends the events again.
  forwarded.on('error', () => (response.headersSent ? response.destroy() : response.writeHead(502).end()))
  // A client that leaves ends the request to Sluice.
  response.on('close', () => forwarded.destroy())
  request.pipe(forwarded)
})
server.listen(Number(process.env.PORT ?? 8000), () => {
  process.stdout.write(`http://localhost:${server.address().port}\n`)
})
