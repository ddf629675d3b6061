import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, expect, test } from '@jest/globals'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import { waitUntil } from '@sluice/runtime/wait-until'
import { describeWithOpenssl, makeCertificate } from '../../tests/support/certificates.ts'
import { openOutbound } from './open-outbound.ts'

const never = new AbortController().signal
const message = {
  to: ['a@example.com', 'b@example.com'],
  subject: 'Über 100 errors\r\nBcc: c@example.com',
  text: 'Rule "errors" fires.\n',
  messageId: 'dlv_1',
}
const closing: (() => void)[] = []

afterEach(() => {
  for (const close of closing.splice(0)) close()
})

/** A real SMTP server. `mails` are the mails that it took, and `recipients` are the recipients in their envelopes. */
async function smtpServer(options: SMTPServerOptions = {}) {
  const mails: string[] = []
  const recipients: string[][] = []
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onData: (stream, session, done) => {
      let text = ''
      stream.on('data', (chunk: Buffer) => (text += chunk.toString()))
      stream.on('end', () => {
        mails.push(text)
        recipients.push(session.envelope.rcptTo.map(({ address }) => address))
        done()
      })
    },
    ...options,
  })
  server.on('error', () => undefined)
  server.listen(0, '127.0.0.1')
  await once(server.server, 'listening')
  closing.push(() => server.close(() => undefined))
  const { port } = server.server.address() as AddressInfo
  return { port, mails, recipients, connections: () => server.connections.size }
}

interface MailCase {
  scheme?: string
  login?: string
  timeoutMs?: number
  to?: string[]
}

function mail(
  port: number,
  { scheme = 'smtp', login = '', timeoutMs = 5_000, to = message.to }: MailCase = {},
  signal = never,
) {
  const smtp = { url: `${scheme}://${login}127.0.0.1:${port}`, from: 'Sluice <alerts@example.org>' }
  return openOutbound({ allowedNetworks: [], smtp, timeoutMs }).mail({ ...message, to }, signal)
}

test('a message arrives whole, with the stable id, and a subject adds no header', async () => {
  const server = await smtpServer()
  for (let n = 0; n < 2; n++)
    expect(await mail(server.port)).toMatchObject({ succeeded: true, status: 250, error: null, retryAfterMs: null })
  expect(server.recipients).toEqual([message.to, message.to])
  for (const text of server.mails) {
    expect(text).toContain('Message-ID: <dlv_1@example.org>\r\n')
    expect(text).toContain('From: Sluice <alerts@example.org>\r\n')
    expect(text).toContain('To: a@example.com, b@example.com\r\n')
    expect(text).toContain('Auto-Submitted: auto-generated\r\n')
    expect(text).toContain('\r\n\r\nRule "errors" fires.')
    expect(text).not.toMatch(/^Bcc/im)
  }
  await waitUntil(() => server.connections() === 0, 'the connections are closed')
})

test('a login works, and a refused one is an outcome without the password', async () => {
  const server = await smtpServer({
    authOptional: false,
    allowInsecureAuth: true,
    onAuth: ({ username, password }, _session, done) => {
      if (username === 'me' && password === 's@cret') done(null, { user: 'me' })
      else done(new Error('Wrong password'))
    },
  })
  expect(await mail(server.port, { login: 'me:s%40cret@' })).toMatchObject({ succeeded: true })
  const refused = await mail(server.port, { login: 'me:hush@' })
  expect(refused).toMatchObject({ succeeded: false, status: 535, error: 'the SMTP server refused the credentials' })
  expect(JSON.stringify(refused)).not.toContain('hush')
})

test('refused recipients: for good beside a success, for now and all as a failure', async () => {
  const server = await smtpServer({
    onRcptTo: ({ address }, _session, done) => {
      if (address === 'a@example.com') done()
      else done(Object.assign(new Error('No such user'), { responseCode: 550 }))
    },
  })
  expect(await mail(server.port)).toMatchObject({ succeeded: true, error: 'the SMTP server refused b…@example.com' })
  const greylisting = await smtpServer({
    onRcptTo: ({ address }, _session, done) => {
      if (address === 'c@example.com') done(Object.assign(new Error(`<${address}>: Try later`), { responseCode: 450 }))
      else if (address === 'b@example.com') done(Object.assign(new Error('No such user'), { responseCode: 550 }))
      else done()
    },
  })
  const to = ['A@Example.com', 'b@example.com', 'c@example.com']
  expect(await mail(greylisting.port, { to })).toMatchObject({
    succeeded: false,
    status: 450,
    response: expect.stringContaining('<c…@example.com>: Try later'),
    error: 'the SMTP server refused c…@example.com for now, and b…@example.com for good',
    settledRecipients: ['A@Example.com', 'b@example.com'],
  })
  expect(greylisting.mails).toHaveLength(1)
  const strict = await smtpServer({
    onRcptTo: (_address, _session, done) => {
      done(Object.assign(new Error('Try later'), { responseCode: 450 }))
    },
  })
  expect(await mail(strict.port)).toMatchObject({
    succeeded: false,
    status: 450,
    response: expect.stringContaining('Try later'),
    error: 'the SMTP server refused the sender or the recipients',
  })
})

test('a server that refuses the message, is unavailable, says nothing or closes', async () => {
  const full = await smtpServer({
    onData: (stream, _session, done) => {
      stream.resume().on('end', () => {
        done(Object.assign(new Error('Mailbox full'), { responseCode: 552 }))
      })
    },
  })
  expect(await mail(full.port)).toMatchObject({
    succeeded: false,
    status: 552,
    error: 'the SMTP server refused the message',
  })
  expect(await mail(1)).toMatchObject({ succeeded: false, status: null, error: 'the SMTP server cannot be reached' })
  const silent = createServer((socket) => socket.on('error', () => undefined).resume())
  const rude = createServer((socket) => socket.end())
  for (const server of [silent, rude]) {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    closing.push(() => server.close())
  }
  expect(await mail((silent.address() as AddressInfo).port, { timeoutMs: 300 })).toMatchObject({
    succeeded: false,
    status: null,
  })
  expect(await mail((rude.address() as AddressInfo).port)).toMatchObject({
    succeeded: false,
    error: 'the SMTP server cannot be reached',
  })
})

test('NUL in an answer of the server is replaced, because Postgres cannot store it', async () => {
  // The package smtp-server replaces control characters in its answers.
  for (const answer of ['250 Ok\0 queued', '552 Ok\0 not queued']) {
    const server = createServer((socket) => {
      socket.write('220 ready\r\n')
      socket.on('data', (chunk: Buffer) => {
        const text = chunk.toString()
        if (text === 'DATA\r\n') socket.write('354 go on\r\n')
        else if (text.endsWith('\r\n.\r\n')) socket.write(`${answer}\r\n`)
        else if (/^(EHLO|MAIL|RCPT)/.test(text)) socket.write('250 ok\r\n')
      })
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    closing.push(() => server.close())
    expect(await mail((server.address() as AddressInfo).port)).toMatchObject({
      status: Number(answer.slice(0, 3)),
      response: answer.replace('\0', '\uFFFD'),
    })
  }
})

test('an abort of the caller rejects with its reason', async () => {
  const server = await smtpServer({ onConnect: () => undefined })
  const abort = new AbortController()
  const sending = mail(server.port, {}, abort.signal)
  await waitUntil(() => server.connections() === 1, 'the connection')
  const reason = new Error('the lease is lost')
  abort.abort(reason)
  await expect(sending).rejects.toBe(reason)
  await waitUntil(() => server.connections() === 0, 'the connection is closed')
})

test('without a server every message fails', async () => {
  const outcome = await openOutbound({ allowedNetworks: [] }).mail(message, never)
  expect(outcome).toMatchObject({ succeeded: false, error: 'SLUICE_SMTP_URL is not set' })
})

describeWithOpenssl('a TLS certificate that is not valid', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-mail-'))
  const { cert, key } = makeCertificate(folder, 'localhost')
  const tls = { cert: readFileSync(cert), key: readFileSync(key) }

  afterAll(() => {
    rmSync(folder, { recursive: true, force: true })
  })

  test.each([
    ['smtps:', 'smtps', { secure: true }],
    ['STARTTLS', 'smtp', { disabledCommands: [] }],
  ])('is named for %s', async (_name, scheme, options) => {
    const server = await smtpServer({ ...tls, ...options })
    expect(await mail(server.port, { scheme })).toMatchObject({
      succeeded: false,
      error: 'the TLS certificate of the SMTP server is not valid (DEPTH_ZERO_SELF_SIGNED_CERT)',
    })
    expect(server.mails).toEqual([])
  })
})

test('smtps: to a port without TLS is a failed handshake', async () => {
  const server = await smtpServer()
  expect(await mail(server.port, { scheme: 'smtps' })).toMatchObject({
    succeeded: false,
    error: 'the TLS handshake with the SMTP server failed',
  })
})
