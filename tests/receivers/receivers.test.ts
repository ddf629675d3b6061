import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, test } from '@jest/globals'
import { openOutbound } from '@sluice/outbound/open-outbound'
import { waitUntil } from '@sluice/runtime/wait-until'
import { attempt } from '@sluice/worker/webhooks/attempt'
import { findFreePort } from '../support/free-port.ts'
import { testSecrets } from '../support/webhooks.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const page = readFileSync(join(root, 'docs/webhook-receivers.md'), 'utf8')
const example = join(root, 'docs/example/receive-webhooks.mjs')
const folder = mkdtempSync(join(tmpdir(), 'sluice-receivers-'))
const outbound = openOutbound({ allowedNetworks: ['127.0.0.0/8'] })
const never = new AbortController().signal

afterAll(() => {
  rmSync(folder, { recursive: true })
})

/** The page's code block of a language; there must be one. */
function blockOf(language: string): string {
  const blocks = [...page.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))]
  expect(blocks).toHaveLength(1)
  return blocks[0]?.[1] ?? ''
}

const [present, previous, foreign] = ['the present sécret', 'the previous secret', 'a foreign secret']
const body = Buffer.from('{"event_type":"alert","timestamp":1,"site_id":"s","data":{"rule_name":"Größe \u{1F600}"}}')

interface Delivery {
  headers: Readonly<Record<string, string>>
  body: Buffer
}

/** A delivery as the worker sends it; `secrets` are the present secret and, during a rotation, the previous one. */
async function signed(
  [secret, before]: readonly [string, string?],
  timestampMs = Date.now(),
  content = body,
): Promise<Delivery> {
  const sent: Delivery[] = []
  const post = ({ headers }: Pick<Delivery, 'headers'>) => {
    sent.push({ headers, body: content })
    return Promise.resolve({
      succeeded: true,
      status: 200,
      latencyMs: 1,
      response: '',
      error: null,
      retryAfterMs: null,
    })
  }
  const delivery = {
    id: 'dlv_01',
    lease: 1,
    endpointId: 'wh_01',
    siteId: 's',
    kind: 'alert' as const,
    channel: 'webhook' as const,
    targetFingerprint: Buffer.alloc(0),
    encryptedTarget: testSecrets.encrypt('http://127.0.0.1/'),
    encryptedSecret: testSecrets.encrypt(secret),
    previousEncryptedSecret: before === undefined ? null : testSecrets.encrypt(before),
    body: content,
    settledRecipients: [],
    dueAt: 0,
    isFirst: true,
    isFailing: false,
  }
  const mail = outbound.mail.bind(outbound)
  const deps = { outbound: { post, mail }, secrets: testSecrets }
  await attempt(deps, delivery, timestampMs, never)
  const [first] = sent
  if (!first) throw new Error('nothing was sent')
  return first
}

const minuteMs = 60_000

interface Case {
  name: string
  delivery: Delivery
  secret: string
  expected: boolean
}

/**
 * Deliveries with the current time: a receiver must check them at once, because it refuses those older than five
 * minutes.
 */
async function signedCases(): Promise<Case[]> {
  const now = Date.now()
  const plain = await signed([present])
  const rotating = await signed([present, previous])
  const signature = plain.headers['x-svc-signature'] ?? ''
  return [
    { name: 'a delivery', delivery: plain, secret: present, expected: true },
    { name: 'another secret', delivery: plain, secret: foreign, expected: false },
    { name: 'in a rotation, a receiver with the new secret', delivery: rotating, secret: present, expected: true },
    { name: 'in a rotation, a receiver with the old secret', delivery: rotating, secret: previous, expected: true },
    { name: 'in a rotation, another secret', delivery: rotating, secret: foreign, expected: false },
    { name: 'after a rotation, a receiver with the old secret', delivery: plain, secret: previous, expected: false },
    {
      name: 'a body that was changed',
      delivery: { ...plain, body: Buffer.from(body.toString().replace('alert', 'alerT')) },
      secret: present,
      expected: false,
    },
    {
      name: 'a timestamp that was changed',
      delivery: withHeaders(plain, { 'x-svc-timestamp': String(Number(plain.headers['x-svc-timestamp']) + 1) }),
      secret: present,
      expected: false,
    },
    { name: '4 minutes old', delivery: await signed([present], now - 4 * minuteMs), secret: present, expected: true },
    { name: '6 minutes old', delivery: await signed([present], now - 6 * minuteMs), secret: present, expected: false },
    {
      name: '6 minutes ahead',
      delivery: await signed([present], now + 6 * minuteMs),
      secret: present,
      expected: false,
    },
    { name: 'an empty body', delivery: await signed([present], now, Buffer.alloc(0)), secret: present, expected: true },
    {
      name: 'bytes that are no text',
      delivery: await signed([present], now, Buffer.from([0, 255, 254, 13, 10])),
      secret: present,
      expected: true,
    },
    { name: 'no signature', delivery: withHeaders(plain, { 'x-svc-signature': '' }), secret: present, expected: false },
    {
      name: 'half a signature',
      delivery: withHeaders(plain, { 'x-svc-signature': signature.slice(0, 32) }),
      secret: present,
      expected: false,
    },
    {
      name: 'a signature in capitals',
      delivery: withHeaders(plain, { 'x-svc-signature': signature.toUpperCase() }),
      secret: present,
      expected: false,
    },
    {
      name: 'a signature that is not ASCII',
      delivery: withHeaders(plain, { 'x-svc-signature': 'é'.repeat(64) }),
      secret: present,
      expected: false,
    },
    { name: 'no timestamp', delivery: withHeaders(plain, { 'x-svc-timestamp': '' }), secret: present, expected: false },
    {
      name: 'a timestamp that is no number',
      delivery: withHeaders(plain, { 'x-svc-timestamp': '1e12' }),
      secret: present,
      expected: false,
    },
  ]
}

function withHeaders(delivery: Delivery, headers: Readonly<Record<string, string>>): Delivery {
  return { ...delivery, headers: { ...delivery.headers, ...headers } }
}

/** Headers and body as a receiver gets them, of every case, from one real server and the sender's transport. */
async function receiveAll(cases: readonly Case[]): Promise<{ headers: IncomingHttpHeaders; body: Buffer }[]> {
  const received: { headers: IncomingHttpHeaders; body: Buffer }[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      received.push({ headers: request.headers, body: Buffer.concat(chunks) })
      response.end()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  for (const { delivery } of cases) {
    expect(await outbound.post({ url, ...delivery }, never)).toMatchObject({ succeeded: true })
  }
  server.close()
  return received
}

const headerNames = ['x-svc-timestamp', 'x-svc-signature', 'x-svc-signature-previous']

/**
 * The page's code with a main program that reads the cases, one line of base64 fields each, and prints `true` or
 * `false` for each.
 */
interface Language {
  name: string
  block: string
  /** If this program is missing, the language is skipped. */
  tool: readonly [string, ...string[]]
  files: (block: string) => Readonly<Record<string, string>>
  /** Compiles the program, if the language needs it. */
  build?: readonly [string, ...string[]]
  command: readonly [string, ...string[]]
}

const languages: readonly Language[] = [
  {
    name: 'Node',
    block: 'js',
    tool: [process.execPath, '--version'],
    files: (block) => ({
      'verify.mjs': block,
      'node.mjs': `
        import { readFileSync } from 'node:fs'
        import { verify } from './verify.mjs'
        for (const line of readFileSync(0, 'utf8').trimEnd().split('\\n')) {
          const [secret, body, ...values] = line.split(' ').map((field) => Buffer.from(field.slice(1), 'base64'))
          const names = ${JSON.stringify(headerNames)}
          const headers = Object.fromEntries(names.map((name, n) => [name, values[n].toString()]).filter(([, value]) => value !== ''))
          console.log(verify(headers, body, secret.toString()))
        }`,
    }),
    command: [process.execPath, 'node.mjs'],
  },
  {
    name: 'Python',
    block: 'python',
    tool: ['python3', '--version'],
    files: (block) => ({
      'verify.py': block,
      'run.py': `
import base64, sys
from verify import verify
for line in sys.stdin:
    secret, body, *values = [base64.b64decode(field[1:]) for field in line.split()]
    headers = {name: value.decode() for name, value in zip(${JSON.stringify(headerNames)}, values) if value}
    print("true" if verify(headers, body, secret.decode()) else "false")
`,
    }),
    command: ['python3', 'run.py'],
  },
  {
    name: 'Go',
    block: 'go',
    tool: ['go', 'version'],
    files: (block) => ({
      'verify.go': block,
      'go.mod': 'module receivers\n\ngo 1.19\n',
      'main.go': `package main

import (
	"bufio"
	"encoding/base64"
	"os"
	"strings"
	"time"
)

func main() {
	names := strings.Split("${headerNames.join(' ')}", " ")
	for scanner := bufio.NewScanner(os.Stdin); scanner.Scan(); {
		fields := [][]byte{}
		for _, field := range strings.Split(scanner.Text(), " ") {
			bytes, _ := base64.StdEncoding.DecodeString(field[1:])
			fields = append(fields, bytes)
		}
		header := func(name string) string {
			for n, each := range names {
				if each == name {
					return string(fields[n+2])
				}
			}
			return ""
		}
		if Verify(header, fields[1], string(fields[0]), time.Now()) {
			os.Stdout.WriteString("true\\n")
		} else {
			os.Stdout.WriteString("false\\n")
		}
	}
}
`,
    }),
    build: ['go', 'build', '-o', 'receiver', '.'],
    command: ['./receiver'],
  },
  {
    name: 'PHP',
    block: 'php',
    tool: ['php', '--version'],
    files: (block) => ({
      'verify.php': block,
      'run.php': `<?php
        require 'verify.php';
        while (($line = fgets(STDIN)) !== false) {
            $fields = array_map(fn($field) => base64_decode(substr($field, 1)), explode(' ', trim($line)));
            $server = [];
            foreach (${JSON.stringify(headerNames)} as $n => $name) {
                if ($fields[$n + 2] !== '') $server['HTTP_' . strtoupper(str_replace('-', '_', $name))] = $fields[$n + 2];
            }
            echo verify($server, $fields[1], $fields[0]) ? 'true' : 'false', "\\n";
        }`,
    }),
    command: ['php', 'run.php'],
  },
]

function execute([program, ...args]: readonly [string, ...string[]], input: string): string {
  return execFileSync(program, args, { cwd: folder, input, encoding: 'utf8' })
}

function isThere([program, ...args]: readonly [string, ...string[]]): boolean {
  return spawnSync(program, args, { stdio: 'ignore' }).status === 0
}

describe('the code of docs/webhook-receivers.md', () => {
  /** The input of a program: a line for each case. */
  async function linesOf(cases: readonly Case[]): Promise<string> {
    const received = await receiveAll(cases)
    const fieldsOfCases = received.map(({ headers, body: bytes }, n) => [
      Buffer.from(cases[n]?.secret ?? ''),
      bytes,
      // Node reads headers as Latin-1.
      ...headerNames.map((name) => Buffer.from(String(headers[name] ?? ''))),
    ])
    // A mark before each field, because the base64 of an empty text is empty.
    return fieldsOfCases
      .map((fields) => `${fields.map((field) => `=${field.toString('base64')}`).join(' ')}\n`)
      .join('')
  }

  for (const { name, block, tool, files, build, command } of languages) {
    ;(isThere(tool) ? test : test.skip)(
      `${name} tells every good delivery from every bad one (needs ${tool[0].split('/').at(-1) ?? ''})`,
      async () => {
        for (const [file, text] of Object.entries(files(blockOf(block)))) writeFileSync(join(folder, file), text)
        if (build) execute(build, '')
        const cases = await signedCases()
        const answers = execute(command, await linesOf(cases))
          .trimEnd()
          .split('\n')
        expect(cases.map((each, n) => ({ name: each.name, accepted: answers[n] }))).toEqual(
          cases.map((each) => ({ name: each.name, accepted: String(each.expected) })),
        )
      },
    )
  }
})

/** A command of the page, in a shell, on a port of its own. */
async function runCommand(pattern: RegExp, environment: Readonly<Record<string, string>> = {}) {
  const port = await findFreePort()
  const commands = [...page.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, text = '']) => text.trim())
  const command = commands.find((text) => pattern.test(text))
  if (command === undefined) throw new Error(`the page has no command like ${pattern.source}`)
  const child = spawn('bash', ['-c', command.replace('9000', String(port)).replace(/^\w+=… /, '')], {
    cwd: root,
    env: { ...process.env, PORT: String(port), ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  return { url: `http://127.0.0.1:${port}/`, child, output: () => output }
}

function stop(child: ChildProcess): void {
  // The shell is the leader of a group of its own.
  if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid)
}

describe('what the page says to try', () => {
  test('the example checks signatures and handles a repeat once', async () => {
    const plain = await signed([present])
    const { url, child, output } = await runCommand(/receive-webhooks/, { SLUICE_WEBHOOK_SECRET: present })
    try {
      await waitUntil(() => output().includes('Waiting'), 'the receiver')
      const post = (delivery: Delivery) => outbound.post({ url, ...delivery }, never)
      expect(await post(plain)).toMatchObject({ succeeded: true, status: 204 })
      expect(await post(await signed([previous, present]))).toMatchObject({ succeeded: true, status: 204 })
      expect(await post(await signed([foreign]))).toMatchObject({ succeeded: false, status: 401 })
      expect(await post(await signed([present], Date.now(), Buffer.alloc(1_100_000)))).toMatchObject({ status: 413 })
      await waitUntil(() => output().includes('came again'), 'the repeat')
      expect(output().split('\n').slice(1)).toEqual([
        `dlv_01 ${body.toString()}`,
        'dlv_01 came again',
        'refused: the signature is not of this secret, or the timestamp is old',
        '',
      ])
    } finally {
      stop(child)
    }
  })

  test('the example has the function of the page', () => {
    const [, block = ''] = blockOf('js').split('const toleranceMs')
    expect(readFileSync(example, 'utf8')).toContain(block)
  })
  ;(spawnSync('nc', ['-h'], { stdio: 'ignore' }).error ? test.skip : test)(
    'nc shows a delivery (needs nc)',
    async () => {
      const plain = await signed([present])
      const { url, child, output } = await runCommand(/\bnc\b/)
      try {
        // Connections are refused until nc listens, so they do not use up the one connection that it accepts.
        await waitUntil(async () => (await outbound.post({ url, ...plain }, never)).status === 204, 'a success')
        await waitUntil(() => output().includes(body.toString()), 'the body')
        expect(output()).toContain('x-svc-signature: ')
      } finally {
        stop(child)
      }
    },
  )
})
