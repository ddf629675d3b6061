import js from '@eslint/js'
import { defineConfig } from 'eslint/config'
import importSort from 'eslint-plugin-simple-import-sort'
import tseslint from 'typescript-eslint'

const noEnums = { selector: 'TSEnumDeclaration', message: 'Use a union of string literals.' }
const noMarkup = [
  'MemberExpression[property.name=/^(innerHTML|outerHTML|srcdoc|insertAdjacentHTML|setHTMLUnsafe|createContextualFragment)$/]',
  'Identifier[name="dangerouslySetInnerHTML"]',
  'JSXIdentifier[name=/^(dangerouslySetInnerHTML|innerHTML|srcdoc)$/]',
  'CallExpression[callee.object.name="document"][callee.property.name=/^write/]',
].map((selector) => ({
  selector,
  message: 'Make text nodes and elements: text that is parsed as markup may hold scripts.',
}))

export default defineConfig(
  {
    ignores: [
      '**/node_modules/',
      'data/',
      '.turbo/',
      '.cache/',
      'packages/{dashboard,sdk-browser}/dist*/',
      'packages/sdk-node/dist/',
      'packages/sdk-browser/released/',
      // `next build` checks it by the rules of its own tsconfig.json.
      'docs/sdk/examples/nextjs/',
    ],
  },
  js.configs.recommended,
  {
    // One block: Node’s modules, then packages, ours, and relative paths. `npx eslint --fix . && npx prettier --write .` sorts.
    plugins: { 'import-sort': importSort },
    rules: {
      'import-sort/imports': ['error', { groups: [['^\\u0000', '^node:', '^@?\\w', '^@sluice/', '^\\.']] }],
      'import-sort/exports': 'error',
    },
  },
  {
    files: ['**/*.{ts,tsx}'],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-non-null-assertion': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', ignoreRestSiblings: true }],
      'no-console': 'error',
      'no-restricted-properties': [
        'error',
        {
          object: 'process',
          property: 'env',
          message: 'Read configuration through the service’s config.ts; only main.ts hands process.env over.',
        },
        { object: 'Math', property: 'random', message: 'Use node:crypto for ids and keys, a seeded source in tests.' },
      ],
      'no-restricted-syntax': ['error', noEnums],
    },
  },
  {
    // What is stored may be anything, markup too: the dashboard shows it as text nodes alone.
    files: ['packages/dashboard/src/**/*.{ts,tsx}'],
    rules: { 'no-restricted-syntax': ['error', noEnums, ...noMarkup] },
  },
  {
    // Bars just above what the code has, so that nothing grows past them unseen. A test may be one long table.
    ignores: ['**/*.test.ts', '**/conformance/**'],
    rules: {
      complexity: ['error', { max: 20, variant: 'modified' }], // a switch counts once, however many cases it has
      'max-depth': ['error', 4],
      'max-lines': ['error', 400],
      'max-params': ['error', 4],
    },
  },
  {
    // A function counts with the functions in it: most of the longest ones return the methods of a port.
    files: ['packages/**/*.{ts,tsx}'],
    ignores: ['**/*.test.ts', '**/conformance/**'],
    rules: { 'max-lines-per-function': ['error', { max: 215, skipBlankLines: true, skipComments: true }] },
  },
  {
    files: ['services/**/*.ts'],
    ignores: ['**/*.test.ts'],
    rules: { 'max-lines-per-function': ['error', { max: 110, skipBlankLines: true, skipComments: true }] },
  },
  {
    // Process entries, and what tests and benchmarks print, are where the environment and the terminal are touched.
    files: [
      '**/main.ts',
      'services/standalone/admin-key.ts',
      'tests/**/*.ts',
      'bench/**/*.ts',
      'docs/**/*.ts',
      '.ci/*.ts',
      'packages/engines/**/*.ts',
      '**/*.config.ts',
    ],
    rules: { 'no-restricted-properties': 'off', 'no-console': 'off' },
  },
)
