import { expect, test } from '@jest/globals'
import { loadConfig } from '@sluice/runtime/config'
import { outboundOptionsOf, smtp, webhookTargets } from './variables.ts'

const variables = { ...webhookTargets, ...smtp }

test('the options of a configuration', () => {
  const config = loadConfig(variables, {
    SLUICE_WEBHOOK_ALLOWED_NETWORKS: '10.1.0.0/16, fd00::/8',
    SLUICE_WEBHOOK_REFUSED_NETWORKS: '2600:1f14:1::/56',
    SLUICE_WEBHOOK_PROXY: 'http://me:secret@proxy:4750',
    SLUICE_SMTP_URL: 'smtps://me:secret@mail.example.com',
    SLUICE_SMTP_FROM: 'Sluice <alerts@example.com>',
  })
  expect(outboundOptionsOf(config)).toEqual({
    allowedNetworks: ['10.1.0.0/16', 'fd00::/8'],
    refusedNetworks: ['2600:1f14:1::/56'],
    proxy: 'http://me:secret@proxy:4750',
    smtp: { url: 'smtps://me:secret@mail.example.com', from: 'Sluice <alerts@example.com>' },
  })
  expect(outboundOptionsOf(loadConfig(variables, {}), true)).toEqual({
    allowedNetworks: ['127.0.0.0/8', '::1/128'],
    refusedNetworks: [],
    proxy: undefined,
    smtp: undefined,
  })
})

test.each([
  ['SLUICE_WEBHOOK_ALLOWED_NETWORKS', '10.0.0.0/8,example.com'],
  ['SLUICE_WEBHOOK_REFUSED_NETWORKS', '2600::/129'],
  ['SLUICE_WEBHOOK_PROXY', 'socks5://secret@proxy'],
  ['SLUICE_WEBHOOK_PROXY', 'proxy-secret:4750'],
  ['SLUICE_WEBHOOK_PROXY', 'http://me:50%secret@proxy:4750'],
  ['SLUICE_WEBHOOK_PROXY', 'http://secret%:me@proxy:4750'],
  ['SLUICE_WEBHOOK_PROXY', 'http://me:secret%ff@proxy:4750'],
  ['SLUICE_SMTP_URL', 'secret.example.com'],
  ['SLUICE_SMTP_URL', 'smtp://'],
  ['SLUICE_SMTP_FROM', 'alerts'],
  ['SLUICE_SMTP_FROM', 'a@b.c\r\nBcc: d@e.f'],
])('%s=%j is a mistake, and no secret is quoted', (name, text) => {
  let message = ''
  try {
    loadConfig(variables, { [name]: text })
  } catch (error) {
    message = (error as Error).message
  }
  expect(message).toContain(name)
  expect(message).not.toContain('secret')
})

test('a % in the credentials of the proxy is percent-encoded', () => {
  const load = (text: string) => () => loadConfig(variables, { SLUICE_WEBHOOK_PROXY: text })
  expect(load('http://me:50%25off@proxy:4750')).not.toThrow()
  expect(load('http://me:50%off@proxy:4750')).toThrow(
    'SLUICE_WEBHOOK_PROXY must percent-encode % in its password as %25',
  )
  expect(load('http://me%:off@proxy:4750')).toThrow('SLUICE_WEBHOOK_PROXY must percent-encode % in its user as %25')
})

test('a server for e-mail needs a sender, and a sender a server', () => {
  for (const environment of [{ SLUICE_SMTP_URL: 'smtp://a' }, { SLUICE_SMTP_FROM: 'a@b.c' }]) {
    const sentence = 'SLUICE_SMTP_URL and SLUICE_SMTP_FROM must be set both, or neither'
    expect(() => loadConfig(variables, environment)).toThrow(sentence)
  }
})
