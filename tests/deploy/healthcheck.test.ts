import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, test } from '@jest/globals'
import { denyAll } from '@sluice/access/access'
import { capturedLogger } from '../support/captured-logger.ts'
import { describeWithOpenssl, makeCertificate } from '../support/certificates.ts'
import { startTestService, type TestService } from '../support/test-service.ts'

const program = fileURLToPath(new URL('../../deploy/healthcheck.mjs', import.meta.url))
let service: TestService | undefined

afterEach(async () => {
  await service?.stop()
  service = undefined
})

function runHealthcheck(environment: Record<string, string>, path: string) {
  return new Promise<{ code: number; messages: string }>((resolve) => {
    const child = execFile(process.execPath, [program, path], { env: environment }, (_error, _output, messages) => {
      resolve({ code: child.exitCode ?? -1, messages })
    })
  })
}

async function start(isReady: boolean, tls: { SLUICE_TLS_CERT?: string; SLUICE_TLS_KEY?: string } = {}) {
  const check = () => (isReady ? Promise.resolve() : Promise.reject(new Error('the engine is unavailable')))
  const checks = [{ name: 'engine', required: true, check }]
  service = await startTestService({ checks }, denyAll, capturedLogger(), tls)
  return { SLUICE_PORT: String(service.port), SLUICE_METRICS_PORT: new URL(service.metricsUrl).port }
}

test('the health check of the images ends with 0 for a service that is ready', async () => {
  const ports = await start(true)
  expect(await runHealthcheck(ports, '/readyz')).toStrictEqual({ code: 0, messages: '' })
})

test('it ends with 1 and the answer for a service that is not ready, which is alive', async () => {
  const ports = await start(false)
  expect(await runHealthcheck(ports, '/healthz')).toMatchObject({ code: 0 })
  expect(await runHealthcheck(ports, '/readyz')).toStrictEqual({
    code: 1,
    messages: expect.stringMatching(/^\/readyz answered 503: .*"engine"/) as unknown,
  })
})

test('a service is alive while its port for clients takes no connection', async () => {
  const { SLUICE_METRICS_PORT } = await start(true)
  // Nothing listens on port 1.
  expect(await runHealthcheck({ SLUICE_PORT: '1', SLUICE_METRICS_PORT }, '/healthz')).toMatchObject({ code: 0 })
})

test('it ends with 1 and the reason where nothing listens', async () => {
  const ports = await start(true)
  await service?.stop()
  service = undefined
  expect(await runHealthcheck(ports, '/healthz')).toMatchObject({
    code: 1,
    messages: expect.stringContaining('ECONNREFUSED') as unknown,
  })
})

describeWithOpenssl('with TLS', () => {
  test('it asks by HTTPS, whatever the name in the certificate', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-healthcheck-'))
    try {
      const { cert: SLUICE_TLS_CERT, key: SLUICE_TLS_KEY } = makeCertificate(folder, 'sluice.example.com')
      const ports = await start(true, { SLUICE_TLS_CERT, SLUICE_TLS_KEY })
      for (const path of ['/readyz', '/healthz'])
        expect(await runHealthcheck({ ...ports, SLUICE_TLS_CERT }, path)).toStrictEqual({ code: 0, messages: '' })
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})
