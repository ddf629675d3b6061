import { describe, expect, test } from '@jest/globals'
import { ConfigError, loadConfig } from './config.ts'
import { describeMisspeltName, misspeltNames } from './misspelt-variables.ts'
import { optionalSecretVariable, optionalVariable, urlVariable } from './variables.ts'

const variables = {
  SLUICE_HOST: optionalVariable('An address.', () => undefined),
  SLUICE_LOG_URL: urlVariable({ schemes: ['kafka'], description: 'A log.' }),
  SLUICE_SECRETS_KEY: optionalSecretVariable('A key.', () => undefined),
  SLUICE_TRUSTED_PROXIES: optionalVariable('Proxies.'),
}

describe('a name that no variable has', () => {
  test.each([
    ['SLUICE_LOG_ULR', ['SLUICE_LOG_URL']],
    ['SLUICE_TRUSTED', ['SLUICE_TRUSTED_PROXIES']],
    ['SLUICE_SECRET_KEY', ['SLUICE_SECRETS_KEY']],
    ['SLUICE_SECRET_KEY_FILE', ['SLUICE_SECRETS_KEY_FILE']],
  ])('%s is reported with the variables that may be meant', (found, meant) => {
    expect(misspeltNames(variables, { [found]: 'x' })).toStrictEqual([{ found, meant }])
  })

  test.each([
    ['is empty', { SLUICE_LOG_ULR: '' }],
    ['stands beside the variable that it resembles', { SLUICE_LOG_ULR: 'x', SLUICE_LOG_URL: 'kafka://h/t' }],
    ['resembles a short variable a little', { SLUICE_LAG: 'x', SLUICE_HOME: '/opt' }],
    ['resembles no variable', { SLUICE_QUERY_PORT: 'tcp://10.0.0.1:80', SLUICE_CLICKHOUSE_URL: 'http://h' }],
    ['belongs to another program', { XLUICE_LOG_URL: 'x' }],
  ])('is not reported when it %s', (_case, environment) => {
    expect(misspeltNames(variables, environment)).toStrictEqual([])
  })

  test('is not reported when it is the former name of a variable', () => {
    const renamed = new Map([['SLUICE_SECRET_KEY', 'SLUICE_SECRETS_KEY']])
    const environment = { SLUICE_SECRET_KEY: 'x', SLUICE_SECRET_KEY_FILE: 'y' }
    expect(misspeltNames(variables, environment, renamed)).toStrictEqual([])
  })

  test('is named after the mistakes of a configuration, without its value', () => {
    let mistakes: readonly string[] = []
    try {
      loadConfig(variables, { SLUICE_LOG_ULR: 'canary' })
    } catch (error) {
      if (error instanceof ConfigError) ({ mistakes } = error)
    }
    expect(mistakes).toStrictEqual([
      'SLUICE_LOG_URL is required\n    A log.',
      'SLUICE_LOG_ULR is set, but no such variable is read: did you mean SLUICE_LOG_URL?',
    ])
  })

  test('may be meant for one of several variables', () => {
    expect(describeMisspeltName({ found: 'A', meant: ['AB', 'AC'] })).toContain('did you mean AB or AC?')
  })
})
