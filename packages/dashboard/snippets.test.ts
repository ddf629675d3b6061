import { execFileSync } from 'node:child_process'
import { expect, test } from '@jest/globals'
import { snippetsOf } from './src/pages/first-event/snippets.ts'

const names = ['my-site', `it's`, '"quoted"', '</script><script>', '$(id) `id`', 'ü\u202e\\']

test.each(names)('the curl command sends the site %j through a shell unchanged', (name) => {
  const { curl } = snippetsOf('http://127.0.0.1:1', 'svc_prod_x', name)
  const echo = curl.replace('curl', `printf '%s\\n'`)
  const arguments_ = execFileSync('/bin/sh', ['-c', echo], { encoding: 'utf8' }).trimEnd().split('\n')
  expect(JSON.parse(arguments_.at(-1) ?? '')).toMatchObject({ site_id: name })
})

test.each(names)('no name of a site ends the script: %j', (name) => {
  const { browser } = snippetsOf('http://127.0.0.1:1', 'svc_prod_x', name)
  expect(browser.indexOf('</script')).toBe(browser.length - '</script>'.length)
})
