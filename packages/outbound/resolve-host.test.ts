import { Resolver } from 'node:dns/promises'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type Answer, type DnsServer, startDnsServer } from '../../tests/support/dns-server.ts'
import { dnsResolver, HostNotResolvedError, type Resolve } from './resolve-host.ts'

let dns: DnsServer | undefined

afterEach(() => {
  dns?.close()
})

const ended = (): AbortSignal => new AbortController().signal

test('look-ups of the operating system that hang end in time for their callers, and no third one is begun', async () => {
  const asked = new Set<string>()
  dns = await startDnsServer((name) => {
    asked.add(name)
    return 'unknown'
  })
  const names: string[] = []
  const hang = Promise.withResolvers<readonly string[]>()
  const resolve = dnsResolver([dns.address], (name) => {
    names.push(name)
    return names.length <= 2 ? hang.promise : Promise.resolve(['192.0.2.1'])
  })
  const late = new Error('late')
  const impatient = new AbortController()
  const outcomes = ['hangs.test', 'hangs-too.test'].map((name) => resolve(name, impatient.signal))
  const settled = Promise.allSettled(outcomes)
  await waitUntil(() => names.length === 2, 'both names are looked up')
  const queued = Promise.allSettled([resolve('queued.test', impatient.signal)])
  const patient = resolve('patient.test', ended())
  await waitUntil(() => asked.has('patient.test') && asked.has('queued.test'), 'the names wait')
  impatient.abort(late)
  for (const outcome of [...(await settled), ...(await queued)]) {
    expect(outcome).toStrictEqual({ status: 'rejected', reason: late })
  }
  expect(names).toHaveLength(2)
  hang.resolve(['192.0.2.2'])
  // The name whose caller has left is not looked up.
  expect(await patient).toStrictEqual(['192.0.2.1'])
  expect(names).toStrictEqual([...names.slice(0, 2), 'patient.test'])
})

test('a name that hangs delays no other, however many ask for it', async () => {
  dns = await startDnsServer(() => 'unknown')
  const names: string[] = []
  const hang = Promise.withResolvers<readonly string[]>()
  const resolve = dnsResolver([dns.address], (name) => {
    names.push(name)
    return name === 'hangs.test' ? hang.promise : Promise.resolve(['192.0.2.1'])
  })
  const hanging = Array.from({ length: 4 }, () => resolve('hangs.test', ended()))
  await waitUntil(() => names.length === 1, 'the name is looked up')
  expect(await resolve('other.test', AbortSignal.timeout(10_000))).toStrictEqual(['192.0.2.1'])
  hang.resolve(['192.0.2.2'])
  expect(await Promise.all(hanging)).toStrictEqual(Array.from({ length: 4 }, () => ['192.0.2.2']))
  expect(names).toStrictEqual(['hangs.test', 'other.test'])
})

test('a server that answers for one family only delays the address of the other by about a second', async () => {
  dns = await startDnsServer((_name, type) => (type === 'AAAA' ? 'silent' : ['192.0.2.1']))
  // The first repetition of a query comes after 2 s.
  expect(await dnsResolver([dns.address])('receiver.test', AbortSignal.timeout(1_900))).toStrictEqual(['192.0.2.1'])
})

test.each(['failing', 'refused'] as const)(
  'the operating system looks up a name without a dot when the answer of DNS is %s, but no other name',
  async (answer) => {
    dns = await startDnsServer(() => answer)
    const names: string[] = []
    const resolve = dnsResolver([dns.address], (name) => {
      names.push(name)
      return Promise.resolve(['192.0.2.1'])
    })
    expect(await resolve('receiver', ended())).toStrictEqual(['192.0.2.1'])
    await expect(resolve('receiver.test', ended())).rejects.toThrow(HostNotResolvedError)
    expect(names).toStrictEqual(['receiver'])
  },
)

describe('a name that the operating system', () => {
  /** Milliseconds on the clock of the resolver. */
  let now: number
  /** Look-ups of the operating system. */
  let lookUps: number
  let answer: ReturnType<Answer>
  /** How long a look-up takes on the clock of the resolver. */
  let durationMs: number
  let system: DnsServer
  let resolve: Resolve

  beforeEach(async () => {
    now = 0
    lookUps = 0
    answer = 'unknown'
    durationMs = 0
    dns = await startDnsServer(() => 'unknown')
    // The operating system asks a server of its own, as it does for a search domain.
    system = await startDnsServer(() => answer)
    resolve = dnsResolver([dns.address], lookUpBySystem, () => now)
  })

  async function lookUpBySystem(name: string): Promise<readonly string[]> {
    lookUps++
    now += durationMs
    const resolver = new Resolver({ timeout: 200, tries: 1 })
    resolver.setServers([system.address])
    return resolver.resolve4(name).catch((cause: unknown) => {
      throw new HostNotResolvedError(name, { cause })
    })
  }

  afterEach(() => system.close())

  const found = () => resolve('name.test', ended())

  test('does not find is not looked up again for half a minute', async () => {
    await expect(found()).rejects.toThrow(HostNotResolvedError)
    answer = ['192.0.2.1']
    now = 29_999
    await expect(found()).rejects.toThrow(HostNotResolvedError)
    expect(lookUps).toBe(1)
    now = 30_000
    expect(await found()).toStrictEqual(['192.0.2.1'])
  })

  test.each(['failing', 'silent'] as const)(
    'can not look up, because its server is %s, is looked up a second later',
    async (state) => {
      answer = state
      await expect(found()).rejects.toThrow(HostNotResolvedError)
      answer = ['192.0.2.1']
      now = 999
      await expect(found()).rejects.toThrow(HostNotResolvedError)
      expect(lookUps).toBe(1)
      now = 1_000
      expect(await found()).toStrictEqual(['192.0.2.1'])
    },
  )

  test('could not look up is looked up a second later, although the clock of the machine is set back', async () => {
    const machineNow = Date.now
    let setBackMs = 0
    const wallClock = jest.spyOn(Date, 'now').mockImplementation(() => machineNow() - setBackMs)
    try {
      resolve = dnsResolver([dns?.address ?? ''], lookUpBySystem)
      answer = 'failing'
      await expect(found()).rejects.toThrow(HostNotResolvedError)
      answer = ['192.0.2.1']
      setBackMs = 3_600_000
      await waitUntil(() => found().then(Boolean, () => false), 'the name is looked up again', 20_000)
    } finally {
      wallClock.mockRestore()
    }
    expect(lookUps).toBe(2)
  })

  test('took seconds not to look up leaves its place to others for as long', async () => {
    answer = 'failing'
    durationMs = 8_000
    await expect(found()).rejects.toThrow(HostNotResolvedError)
    now = 15_999
    await expect(found()).rejects.toThrow(HostNotResolvedError)
    expect(lookUps).toBe(1)
    now = 16_000
    answer = ['192.0.2.1']
    expect(await found()).toStrictEqual(['192.0.2.1'])
  })
})
