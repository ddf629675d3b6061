import { afterEach, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type DnsServer, startDnsServer } from '../../tests/support/dns-server.ts'
import { dnsResolver } from './resolve-host.ts'

let dns: DnsServer | undefined

afterEach(() => {
  dns?.close()
})

test('a look-up of the operating system that hangs ends in time for its caller, and no second one is begun', async () => {
  dns = await startDnsServer(() => 'unknown')
  const names: string[] = []
  const first = Promise.withResolvers<readonly string[]>()
  const resolve = dnsResolver([dns.address], (name) => {
    names.push(name)
    return names.length === 1 ? first.promise : Promise.resolve(['192.0.2.1'])
  })
  const late = new Error('late')
  const [hanging, queued] = [new AbortController(), new AbortController()]
  const outcomes = [resolve('hangs.test', hanging.signal), resolve('queued.test', queued.signal)]
  const settled = Promise.allSettled(outcomes)
  await waitUntil(() => names.length === 1, 'the first name is looked up')
  const patient = resolve('patient.test', new AbortController().signal)
  hanging.abort(late)
  queued.abort(late)
  expect(await settled).toStrictEqual([
    { status: 'rejected', reason: late },
    { status: 'rejected', reason: late },
  ])
  expect(names).toHaveLength(1)
  first.resolve(['192.0.2.2'])
  // The name whose caller has left is not looked up.
  expect(await patient).toStrictEqual(['192.0.2.1'])
  expect(names).toStrictEqual([names[0], 'patient.test'])
})
