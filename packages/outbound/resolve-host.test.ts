import { afterEach, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type DnsServer, startDnsServer } from '../../tests/support/dns-server.ts'
import { dnsResolver, HostNotResolved } from './resolve-host.ts'

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

test('a name that the operating system did not find is not looked up again for half a minute', async () => {
  dns = await startDnsServer(() => 'unknown')
  let now = 0
  const names: string[] = []
  const resolve = dnsResolver(
    [dns.address],
    (name) => {
      names.push(name)
      return names.length === 1 ? Promise.reject(new HostNotResolved(name)) : Promise.resolve(['192.0.2.1'])
    },
    () => now,
  )
  await expect(resolve('unknown.test', ended())).rejects.toThrow(HostNotResolved)
  now = 29_999
  await expect(resolve('unknown.test', ended())).rejects.toThrow(HostNotResolved)
  expect(names).toHaveLength(1)
  now = 30_000
  expect(await resolve('unknown.test', ended())).toStrictEqual(['192.0.2.1'])
})
