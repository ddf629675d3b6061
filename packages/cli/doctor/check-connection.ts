import { lookup } from 'node:dns/promises'
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { dayMs } from '@sluice/contracts/time-units'
import { type AddressSetting, codeOf, connectionFailure } from '../connection-failure.ts'
import { formatTime } from '../output/format.ts'
import { failed, type Finding, ok, warning } from './check.ts'

const timeoutMs = 5_000
const certificateWarningDays = 14

/**
 * Resolves the name, opens a connection, and over HTTPS checks the certificate. Ends at the first failure. `setting`
 * names the address.
 */
export async function* checkConnection(address: string, setting: AddressSetting): AsyncGenerator<Finding> {
  const url = new URL(address)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80))
  let addresses: string[]
  try {
    addresses = (await lookup(host, { all: true })).map(({ address: each }) => each)
  } catch (error) {
    yield failed(
      'name',
      `${host} can't be resolved (${codeOf(error)})`,
      `Check the address in ${setting}, and the DNS of this machine.`,
    )
    return
  }
  yield ok('name', `${host} is ${addresses.join(', ')}`)
  const begin = performance.now()
  try {
    ;(await open(connectTcp({ host, port }), 'connect')).destroy()
  } catch (error) {
    const advice = connectionFailure(error, address, setting).message
    yield failed('connection', `port ${port} can't be reached (${codeOf(error)})`, advice)
    return
  }
  yield ok('connection', `port ${port} answers in ${Math.ceil(performance.now() - begin)} ms`)
  if (url.protocol === 'https:') yield await checkCertificate({ host, port }, address, setting)
}

async function checkCertificate(
  { host, port }: { host: string; port: number },
  address: string,
  setting: AddressSetting,
): Promise<Finding> {
  // An address has no server name.
  const socket = connectTls({ host, port, ...(/^[\d.]+$|:/.test(host) ? {} : { servername: host }) })
  try {
    await open(socket, 'secureConnect')
    const until = Date.parse(socket.getPeerCertificate().valid_to)
    const detail = `${socket.getProtocol() ?? 'TLS'}, certificate valid until ${formatTime(until, 'UTC', 'day')}`
    return until - Date.now() < certificateWarningDays * dayMs
      ? warning('TLS', detail, 'Renew the certificate before that day.')
      : ok('TLS', detail)
  } catch (error) {
    return failed('TLS', `no secure connection (${codeOf(error)})`, connectionFailure(error, address, setting).message)
  } finally {
    socket.destroy()
  }
}

function open<S extends Socket>(socket: S, event: 'connect' | 'secureConnect'): Promise<S> {
  return new Promise((resolve, reject) => {
    socket.setTimeout(timeoutMs, () => {
      socket.destroy(Object.assign(new Error(`no answer within ${timeoutMs / 1_000} s`), { code: 'ETIMEDOUT' }))
    })
    socket.once('error', reject)
    socket.once(event, () => resolve(socket))
  })
}
