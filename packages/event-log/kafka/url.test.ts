import { expect, test } from '@jest/globals'
import { backfillUrl, deadLetterUrl } from '../open-event-log.ts'
import { parseKafkaUrl } from './url.ts'

const mistakesIn = (url: string): string => {
  try {
    parseKafkaUrl(url)
  } catch (error) {
    return String(error)
  }
  return 'none'
}

test('a Kafka URL names brokers and topic', () => {
  expect(parseKafkaUrl('kafka://h1:9092,h2.example:19092,h4/sluice.events')).toEqual({
    brokers: ['h1:9092', 'h2.example:19092', 'h4:9092'],
    topic: 'sluice.events',
    tls: undefined,
    sasl: undefined,
  })
})

test('a Kafka URL holds TLS and SASL with percent-encoded user and password', () => {
  expect(parseKafkaUrl('kafka://us%40er:p%3Aa%2Fs:s@h:9092/t?tls=true&sasl=scram-sha-512')).toEqual({
    brokers: ['h:9092'],
    topic: 't',
    tls: { ca: undefined },
    sasl: { mechanism: 'scram-sha-512', username: 'us@er', password: 'p:a/s:s' },
  })
})

test.each([
  ['http://h/t', 'expected kafka://host:9092/topic'],
  ['kafka://h:9092', 'the topic is missing'],
  ['kafka://h:9092/a/b', 'the topic is made of'],
  ['kafka://h:9092/..', 'the topic is made of'],
  [`kafka://h/${'x'.repeat(241)}`, 'longer than 240'],
  ['kafka://h1,,h2/t', 'broker 2 is empty'],
  ['kafka://h:0/t', 'the port of broker 1'],
  ['kafka://h:9092x/t', 'broker 1 is not host:port'],
  [
    'kafka://h,[fd00::7]:9092/t',
    "broker 2 is an IPv6 address, which the Kafka client can't connect to: use a host name",
  ],
  ['kafka://h/t?tls=yes', '"tls" is true or false'],
  ['kafka://h/t?ca=/x.pem', '"ca" needs tls=true'],
  ['kafka://h/t?tls=true&ca=/does/not/exist.pem', '/does/not/exist.pem'],
  ['kafka://h/t?tls=true&ca=/dev/null', 'no PEM certificate'],
  ['kafka://u:p@h/t?sasl=gssapi', '"sasl" is one of plain, scram-sha-256, scram-sha-512'],
  ['kafka://h/t?sasl=plain', '"sasl" needs user:password@'],
  ['kafka://u:p@h/t', 'user and password need sasl='],
  ['kafka://:p@h/t?sasl=plain', 'the user is empty'],
  ['kafka://u@h/t?sasl=plain', 'the password is empty'],
  ['kafka://u:%zz@h/t?sasl=plain', 'not percent-encoded'],
  ['kafka://h/t?acks=1', 'unknown parameter (known: tls, sasl, ca)'],
  ['kafka://h/t?tls=true&tls=false', '"tls" is given twice'],
])('%s: %s', (url, mistake) => {
  expect(mistakesIn(url)).toContain('SLUICE_LOG_URL')
  expect(mistakesIn(url)).toContain(mistake)
})

test('one error lists all mistakes of a Kafka URL', () => {
  const mistakes = mistakesIn('kafka://h:0/?tls=maybe&sasl=plain')
  for (const mistake of ['port', 'topic', 'tls', 'sasl']) expect(mistakes).toContain(mistake)
})

test.each([
  'kafka://user:sec/ret@h:9092/t',
  'kafka://user:sec?ret@h:9092/t',
  'kafka://user:sec@ret@h/t?sasl=plain&x=1',
  'kafka://user:sec%ret@h/t?sasl=plain',
])('a mistake does not show the password: %s', (url) => {
  expect(mistakesIn(url)).not.toBe('none')
  expect(mistakesIn(url)).not.toMatch(/sec|ret@/)
})

test('the logs of old rows and of dead letters have URLs of their own', () => {
  expect(backfillUrl('kafka://u:p@h1,h2/sluice.events?tls=true')).toBe(
    'kafka://u:p@h1,h2/sluice.events.backfill?tls=true',
  )
  expect(backfillUrl('file:/data/log')).toBe('file:/data/log/backfill')
  expect(deadLetterUrl('kafka://u:p@h1,h2/sluice.events?tls=true')).toBe(
    'kafka://u:p@h1,h2/sluice.events.dead?tls=true',
  )
  expect(deadLetterUrl('file:/data/log')).toBe('file:/data/log/dead')
})
