import { expect, test } from '@jest/globals'
import { dialledAddresses } from './guarded-connect.ts'

const ipv4 = ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4', '192.0.2.5']
const ipv6 = ['2001:db8::1', '2001:db8::2', '2001:db8::3']

test.each([
  ['only IPv4', ipv4, ipv4.slice(0, 4)],
  ['many IPv4 addresses and IPv6', [...ipv4, ...ipv6], [...ipv4.slice(0, 3), '2001:db8::1']],
  ['IPv6 before IPv4', ['2001:db8::1', '2001:db8::2', '192.0.2.1'], ['192.0.2.1', '2001:db8::1', '2001:db8::2']],
  ['only IPv6', ipv6, ipv6],
])('of a name with %s, these are dialled', (_name, addresses, dialled) => {
  expect(dialledAddresses(addresses)).toStrictEqual(dialled)
})
