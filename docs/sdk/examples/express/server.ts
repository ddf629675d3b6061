// A shop with Express. `SLUICE_URL=… SLUICE_KEY=… PORT=3000 node server.ts`
import express from 'express'
import { createSluice } from '@sluice/node'

interface ShopEvents {
  purchase: { total: number }
}

const { SLUICE_URL = 'http://localhost:8080', SLUICE_KEY = '', SLUICE_SPOOL, PORT = '3000' } = process.env
const sluice = createSluice<ShopEvents>({ url: SLUICE_URL, key: SLUICE_KEY, site: 'shop', spool: SLUICE_SPOOL })

const app = express()
// A proxy that keeps a connection busy would keep a server that has stopped listening from ending.
app.use((_request, response, next) => {
  if (!server.listening) response.set('Connection', 'close')
  next()
})
app.use(express.json())
// Events that are tracked in a request get the session and the anonymous id of the page that has sent it.
app.use(sluice.middleware())

app.post('/orders', (request, response) => {
  const { total } = request.body as { total: number }
  // The page also tracks the order, with the id and the time of this receipt: Sluice stores one event.
  const receipt = sluice.track('purchase', { total })
  response.status(201).json({ total, receipt })
})

const server = app.listen(Number(PORT))

// Answers the requests that have begun, for at most 5 s, and then sends the events that are queued.
function stop(): void {
  // npm passes on a Ctrl+C that the terminal has sent to this process as well.
  if (!server.listening) return
  server.close(() => {
    void sluice.close()
  })
  setTimeout(() => {
    server.closeAllConnections()
  }, 5_000).unref()
}
process.on('SIGTERM', stop).on('SIGINT', stop)
