import type { IncomingMessage } from 'node:http'
import { describe, expect, test } from '@jest/globals'
import { clientReader, networkOf } from './client-address.ts'

const request = (remoteAddress: string, headers: Record<string, string> = {}) =>
  ({ socket: { remoteAddress }, headers }) as unknown as IncomingMessage

const forwarded = {
  'x-forwarded-for': '203.0.113.7, 10.0.0.9',
  'x-forwarded-proto': 'https',
  'x-forwarded-host': 'stats.example',
  host: 'gateway:8080',
}

describe('without trusted proxies', () => {
  test('address, protocol and host come from the connection', () => {
    const clients = clientReader([])
    expect(clients.read(request('10.0.0.1', forwarded))).toStrictEqual({
      address: '10.0.0.1',
      isSecure: false,
      host: 'gateway:8080',
    })
  })
})

describe('with trusted proxies', () => {
  const clients = clientReader(['10.0.0.0/8', 'loopback'])

  test('the client is the last forwarded address that is not a trusted proxy', () => {
    expect(clients.read(request('10.0.0.1', forwarded))).toStrictEqual({
      address: '203.0.113.7',
      isSecure: true,
      host: 'stats.example',
    })
  })

  test.each([
    ['203.0.113.7:51234, 10.0.0.9:443', '203.0.113.7'],
    ['[2001:db8::7]:51234, [fd00::1]', '2001:db8::7'],
    ['[2001:db8::7], [fd00::1]:443', '2001:db8::7'],
  ])('proxies may write ports into X-Forwarded-For: %s', (addresses, address) => {
    const reader = clientReader(['10.0.0.0/8', 'fd00::/8'])
    expect(reader.read(request('10.0.0.1', { 'x-forwarded-for': addresses })).address).toBe(address)
  })

  test.each([
    [['130.211.0.0/22', '35.191.0.0/16', '198.51.100.1'], '203.0.113.7'],
    [['130.211.0.0/22', '35.191.0.0/16'], '198.51.100.1'],
    [['uniquelocal'], '35.191.0.9'],
  ])('a load balancer that adds its own address to X-Forwarded-For: with %j, the client is %s', (trusted, address) => {
    const added = { 'x-forwarded-for': '203.0.113.7, 198.51.100.1' }
    expect(clientReader(trusted).read(request('35.191.0.9', added)).address).toBe(address)
  })

  test('of several proxies, the one that is nearest to the client tells protocol and host', () => {
    const several = {
      ...forwarded,
      'x-forwarded-proto': 'https, http',
      'x-forwarded-host': 'stats.example, inner.example:8080',
    }
    expect(clients.read(request('10.0.0.1', several))).toMatchObject({ isSecure: true, host: 'stats.example' })
  })

  test('forwarded headers of an untrusted client are ignored', () => {
    expect(clients.read(request('203.0.113.66', forwarded))).toStrictEqual({
      address: '203.0.113.66',
      isSecure: false,
      host: 'gateway:8080',
    })
  })

  test('addresses that a client prepends to X-Forwarded-For are ignored', () => {
    const forged = { 'x-forwarded-for': '127.0.0.1, 203.0.113.7' }
    expect(clients.read(request('10.0.0.1', forged)).address).toBe('203.0.113.7')
  })
})

test.each([
  ['203.0.113.7', '203.0.113.7'],
  ['::ffff:203.0.113.7', '203.0.113.7'],
  ['2001:db8:1:2:3:4:5:6', '8193:3512:1:2'],
  ['64:ff9b::cb00:7107', '203.0.113.7'],
  ['64:ff9b:1::cb00:7107', '100:65435:1:0'],
  ['unknown', 'unknown'],
])('the network of %s is %s', (address, network) => {
  expect(networkOf(address)).toBe(network)
})

test('a trusted proxy must be an address, a network or a known name', () => {
  expect(() => clientReader(['my-proxy'])).toThrow('invalid IP address: my-proxy')
})
