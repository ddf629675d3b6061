// Ends with 0 if the service on SLUICE_PORT answers 200 at a path, /healthz by default:
//
//   node deploy/healthcheck.mjs /readyz
//
// /healthz is asked on the port of the metrics, which answers also while clients hold all connections of SLUICE_PORT.
import { get as getByHttp } from 'node:http'
import { get as getByHttps } from 'node:https'
import process from 'node:process'

const path = process.argv[2] ?? '/healthz'
const timeoutMs = 5_000

const servicePort = Number(process.env.SLUICE_PORT || 8080)
const metricsPort = Number(process.env.SLUICE_METRICS_PORT || servicePort + 1000)
const asksMetrics = path === '/healthz'
const hasTls = Boolean(process.env.SLUICE_TLS_CERT) && !asksMetrics
const address = { port: asksMetrics ? metricsPort : servicePort, path, timeout: timeoutMs }
// The certificate is for the name by which clients reach the service, not for localhost, so it is not verified here.
const request = (hasTls ? getByHttps : getByHttp)({ ...address, rejectUnauthorized: false }, (response) => {
  let text = ''
  response.setEncoding('utf8')
  response.on('data', (chunk) => (text += chunk))
  response.on('end', () => {
    // Docker keeps the output of failed checks: `docker inspect` shows what is missing.
    if (response.statusCode !== 200) fail(`${path} answered ${response.statusCode}: ${text}`)
  })
})
request.once('timeout', () => request.destroy(new Error(`no answer within ${timeoutMs / 1_000} s`)))
request.once('error', (error) => {
  // Where localhost has two addresses and neither accepts a connection, the error has a code alone.
  fail(`${path}: ${error.message || error.code}`)
})

function fail(text) {
  process.stderr.write(`${text}\n`)
  process.exitCode = 1
}
