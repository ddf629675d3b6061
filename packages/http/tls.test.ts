import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { get } from 'node:https'
import { connect as connectTcp } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, type ConnectionOptions, type PeerCertificate, type TLSSocket } from 'node:tls'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { denyAll } from '@sluice/access/access'
import { ConfigError } from '@sluice/runtime/config'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from '../../tests/support/captured-logger.ts'
import { describeWithOpenssl, makeCertificate, type TestCertificate } from '../../tests/support/certificates.ts'
import { startTestService, type TestService } from '../../tests/support/test-service.ts'
import { openTlsCertificate } from './tls.ts'

describeWithOpenssl('TLS of a listener', () => {
  let folder: string
  let one: TestCertificate
  let other: TestCertificate
  let longer: TestCertificate
  let expired: TestCertificate
  /** The files that the service reads. */
  let used: TestCertificate
  let service: TestService | undefined

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'sluice-tls-'))
    one = makeCertificate(folder, 'one')
    other = makeCertificate(folder, 'other')
    longer = makeCertificate(folder, 'longer', 90)
    expired = makeCertificate(folder, 'expired', -1)
    used = { cert: join(folder, 'used.pem'), key: join(folder, 'used.key') }
  })

  afterAll(() => {
    rmSync(folder, { recursive: true })
  })

  beforeEach(() => replaceBy(one))

  afterEach(async () => {
    await service?.stop()
    service = undefined
  })

  function replace(file: string, by: string): void {
    copyFileSync(by, `${file}.new`)
    renameSync(`${file}.new`, file)
  }

  function replaceBy({ cert, key }: TestCertificate): void {
    replace(used.cert, cert)
    replace(used.key, key)
  }

  async function start(): Promise<TestService> {
    service = await startTestService({}, denyAll, capturedLogger(), {
      SLUICE_TLS_CERT: used.cert,
      SLUICE_TLS_KEY: used.key,
      certificateCheckMs: 5,
    })
    return service
  }

  function connectTls(port: number, options: ConnectionOptions = {}): Promise<TLSSocket> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ...options }, () => resolve(socket))
      socket.once('error', reject)
    })
  }

  async function certificateName(port: number): Promise<string> {
    const socket = await connectTls(port)
    const { subject } = socket.getPeerCertificate() as PeerCertificate & { subject: { CN: string } }
    socket.destroy()
    return subject.CN
  }

  function getJson(url: string, ca: string) {
    return new Promise<{ status: number | undefined; headers: object; body: unknown }>((resolve, reject) => {
      get(url, { ca: readFileSync(ca), agent: false }, (response) => {
        let text = ''
        response.on('data', (chunk: Buffer) => (text += chunk.toString()))
        response.on('end', () => {
          resolve({ status: response.statusCode, headers: response.headers, body: JSON.parse(text) as unknown })
        })
      }).once('error', reject)
    })
  }

  test('requests are answered by HTTPS, and metrics by HTTP', async () => {
    const { url, metricsUrl } = await start()
    const { status, headers, body } = await getJson(`${url}/readyz`, one.cert)
    expect({ status, body }).toMatchObject({ status: 200, body: { data: { status: 'ready', warnings: [] } } })
    expect(headers).toMatchObject({ connection: expect.any(String) as unknown })
    expect((await fetch(`${metricsUrl}/metrics`)).status).toBe(200)
  })

  test('a client that does not trust the certificate, or speaks HTTP, gets no answer, and others still do', async () => {
    const { url, port } = await start()
    await expect(getJson(`${url}/healthz`, other.cert)).rejects.toMatchObject({ code: 'DEPTH_ZERO_SELF_SIGNED_CERT' })
    await expect(fetch(`http://127.0.0.1:${port}/healthz`)).rejects.toThrow('fetch failed')
    expect(await getJson(`${url}/healthz`, one.cert)).toMatchObject({ status: 200 })
  })

  test('TLS 1.2 is the oldest version', async () => {
    const { port } = await start()
    const socket = await connectTls(port, { maxVersion: 'TLSv1.2' })
    expect(socket.getProtocol()).toBe('TLSv1.2')
    socket.destroy()
    const old = { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const
    await expect(connectTls(port, old)).rejects.toMatchObject({ code: 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION' })
  })

  test('a renewed certificate is used without a restart, and connections stay open', async () => {
    const { port, url, lines, metrics } = await start()
    const notAfter = async () =>
      Number(/^sluice_tls_certificate_not_after_seconds (\S+)$/m.exec(await metrics.metrics())?.[1])
    const kept = await connectTls(port)
    expect(await certificateName(port)).toBe('one')
    const before = await notAfter()
    expect(before).toBeGreaterThan(Date.now() / 1_000)
    replaceBy(longer)
    await waitUntil(async () => (await certificateName(port)) === 'longer', 'the new certificate')
    expect(await notAfter()).toBeGreaterThan(before)
    expect(lines()).toContainEqual(expect.objectContaining({ level: 'info', msg: 'TLS certificate reloaded' }))
    const answer = new Promise<string>((resolve) => kept.once('data', (chunk: Buffer) => resolve(chunk.toString())))
    kept.write('GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n')
    expect(await answer).toContain('HTTP/1.1 200 OK')
    kept.destroy()
    expect(await getJson(`${url}/readyz`, longer.cert)).toMatchObject({ body: { data: { warnings: [] } } })
  })

  test('while the files do not fit, the former certificate stays in use, with one warning and one in /readyz', async () => {
    const { port, url, lines } = await start()
    const warnings = () => lines().filter(({ level }) => level === 'warn')
    replace(used.cert, other.cert)
    await waitUntil(() => warnings().length > 0, 'the warning')
    expect(await certificateName(port)).toBe('one')
    const sentence = expect.stringMatching(
      /^SLUICE_TLS_KEY is not the key .*; keeping the former certificate$/,
    ) as unknown
    expect(await getJson(`${url}/readyz`, one.cert)).toMatchObject({ body: { data: { warnings: [sentence] } } })

    rmSync(used.key)
    await waitUntil(() => warnings().length > 1, 'the second warning')
    replace(used.key, other.key)
    await waitUntil(async () => (await certificateName(port)) === 'other', 'the new certificate')
    expect(warnings().map(({ msg }) => msg)).toStrictEqual([
      sentence,
      'SLUICE_TLS_KEY names a file that cannot be read (ENOENT): give the path of a PEM file that this user may read; keeping the former certificate',
    ])
    expect(await getJson(`${url}/readyz`, other.cert)).toMatchObject({ body: { data: { warnings: [] } } })
  })

  test('an expired certificate is a warning, at the start and in /readyz', async () => {
    replaceBy(expired)
    const { port, lines, metricsUrl } = await start()
    expect(await certificateName(port)).toBe('expired')
    expect(lines()).toContainEqual(
      expect.objectContaining({
        level: 'warn',
        msg: expect.stringMatching(/^the certificate of SLUICE_TLS_CERT expired on \d{4}-.*: renew it$/) as unknown,
      }),
    )
    expect((await fetch(`${metricsUrl}/metrics`)).status).toBe(200)
  })

  test('a stop ends connections, also one without a handshake', async () => {
    const { port, stop } = await start()
    const kept = await connectTls(port)
    const silent = connectTcp({ host: '127.0.0.1', port })
    const ends = [kept, silent].map((socket) => new Promise((resolve) => socket.once('close', resolve)))
    kept.resume()
    silent.resume()
    await new Promise((resolve) => silent.once('connect', resolve))
    await stop()
    service = undefined
    await Promise.all(ends)
  })

  function mistakes(files: Partial<TestCertificate>): readonly string[] {
    try {
      openTlsCertificate({ SLUICE_TLS_CERT: files.cert, SLUICE_TLS_KEY: files.key }, capturedLogger().logger)
    } catch (error) {
      if (error instanceof ConfigError) return error.mistakes
      throw error
    }
    return []
  }

  function encrypted(): string {
    const file = join(folder, 'encrypted.key')
    execFileSync('openssl', ['pkey', '-in', one.key, '-aes256', '-passout', 'pass:canary', '-out', file])
    return file
  }

  function text(name: string, content: string): string {
    writeFileSync(join(folder, name), content)
    return join(folder, name)
  }

  test.each<[string, () => Partial<TestCertificate>, RegExp[]]>([
    ['only one of the two', () => ({ cert: one.cert }), [/^SLUICE_TLS_CERT and SLUICE_TLS_KEY must be set both/]],
    ['only the other', () => ({ key: one.key }), [/^SLUICE_TLS_CERT and SLUICE_TLS_KEY must be set both/]],
    ['a key of another certificate', () => ({ ...one, key: other.key }), [/^SLUICE_TLS_KEY is not the key/]],
    [
      'both mixed up',
      () => ({ cert: one.key, key: one.cert }),
      [/^SLUICE_TLS_CERT holds no cert/, /^SLUICE_TLS_KEY holds no/],
    ],
    [
      'a key with a passphrase',
      () => ({ ...one, key: encrypted() }),
      [/^SLUICE_TLS_KEY holds a key with a passphrase/],
    ],
    [
      'empty files',
      () => ({ cert: text('e', ''), key: text('f', '') }),
      [/^SLUICE_TLS_CERT holds no/, /^SLUICE_TLS_KEY holds no/],
    ],
    [
      'missing files',
      () => ({ cert: '/nowhere/c', key: '/nowhere/k' }),
      [/^SLUICE_TLS_CERT names .*ENOENT/, /^SLUICE_TLS_KEY names .*ENOENT/],
    ],
    ['a folder', () => ({ ...one, key: folder }), [/^SLUICE_TLS_KEY names .* cannot be read \(EISDIR\)/]],
    [
      'the key itself, which is not repeated',
      () => ({ ...one, key: readFileSync(one.key, 'utf8') }),
      [/^SLUICE_TLS_KEY holds PEM itself: write that to a file, and give the path of the file$/],
    ],
    [
      'a damaged chain',
      () => ({
        ...one,
        cert: text(
          'g',
          `${readFileSync(one.cert, 'utf8')}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n`,
        ),
      }),
      [/^SLUICE_TLS_CERT holds a chain/],
    ],
  ])('%s: the mistake says what to do', (_, files, patterns) => {
    const found = mistakes(files())
    expect(found).toHaveLength(patterns.length)
    found.forEach((mistake, n) => expect(mistake).toMatch(patterns[n] ?? /never/))
    expect(mistakes(one)).toStrictEqual([])
  })
})
