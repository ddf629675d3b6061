// Proves that a commit only moves or renames code:
//   node scripts/compare-functions.mjs <before> <after> [renames.json]
// Cuts both commits into units: every function, and every top-level statement that is not an import. Units with the
// same tokens match, also if they are in different places. The script prints the units that only one of the commits
// has, and ends with 1 if there are any. Comments, layout, imports, `export` and the order of declarations do not
// count. renames.json lists [["path prefix", "old name", "new name"], …]. The old and the new name count as the same
// identifier in all files of both commits, not only below the prefix.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import process from 'node:process'
import ts from 'typescript'

const maxBuffer = 64 * 1024 * 1024
const [before, after, renamesFile] = process.argv.slice(2)
if (!before || !after) {
  process.stderr.write('usage: node scripts/compare-functions.mjs <before> <after> [renames.json]\n')
  process.exit(2)
}
const canonicalName = nameClasses(renamesFile ? JSON.parse(readFileSync(renamesFile, 'utf8')) : [])
const sides = { before: unitsOf(before), after: unitsOf(after) }
const onlyBefore = difference(sides.before, sides.after)
const onlyAfter = difference(sides.after, sides.before)

print(`${before}: ${sides.before.length} units, ${onlyBefore.length} of them only there`)
for (const unit of onlyBefore) print(`- ${unit.place} ${unit.name}`)
print(`${after}: ${sides.after.length} units, ${onlyAfter.length} of them only there`)
for (const unit of onlyAfter) print(`+ ${unit.place} ${unit.name}`)
if (onlyBefore.length + onlyAfter.length > 0) process.exitCode = 1

function print(line) {
  process.stdout.write(`${line}\n`)
}

/** Names that renames connect share one representative, so that chains and swaps of names are allowed as well. */
function nameClasses(renames) {
  const parents = new Map()
  const root = (name) => {
    let found = name
    while (parents.has(found)) found = parents.get(found)
    return found
  }
  for (const [, oldName, newName] of renames) {
    const [from, to] = [root(oldName), root(newName)]
    if (from !== to) parents.set(from, to)
  }
  return root
}

function unitsOf(commit) {
  const paths = git('ls-tree', '-r', '-z', '--name-only', commit)
    .split('\0')
    .filter((path) => /\.(ts|mjs)$/.test(path))
  const texts = readFiles(commit, paths)
  return paths.flatMap((path, index) => unitsOfFile(path, texts[index]))
}

/** The texts of the files, in the order of `paths`. */
function readFiles(commit, paths) {
  const input = paths.map((path) => `${commit}:${path}\n`).join('')
  const output = execFileSync('git', ['cat-file', '--batch'], { input, maxBuffer })
  const texts = []
  for (let at = 0; at < output.length;) {
    const headEnd = output.indexOf('\n', at)
    const size = Number(output.toString('latin1', at, headEnd).split(' ').at(-1))
    texts.push(output.toString('utf8', headEnd + 1, headEnd + 1 + size))
    at = headEnd + 1 + size + 1
  }
  return texts
}

/**
 * A unit has two hashes: `whole` covers the functions inside of it too, and `own` has a mark in their place, so that a
 * change is reported for the innermost function that has it.
 */
function unitsOfFile(path, text) {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true)
  const units = []

  /** Appends the tokens of `node` to `tokens`, and the functions in it to `inner`. */
  function collect(node, tokens, inner) {
    if (isFunction(node)) {
      const unit = addUnit(node, nameOf(node))
      tokens.whole.push(unit.whole)
      tokens.own.push('ƒ')
      inner.push(unit)
      return
    }
    collectTokens(node, tokens, inner)
  }

  function collectTokens(node, tokens, inner) {
    const push = (token) => {
      tokens.whole.push(token)
      tokens.own.push(token)
    }
    if (ts.isShorthandPropertyAssignment(node)) {
      push(canonicalName(node.name.text))
      push(':')
    }
    if (ts.isBindingElement(node) && !node.propertyName && ts.isIdentifier(node.name) && !node.dotDotDotToken) {
      if (ts.isObjectBindingPattern(node.parent)) {
        push(canonicalName(node.name.text))
        push(':')
      }
    }
    const children = node.getChildren(source).filter((child) => !ts.isJSDoc(child))
    if (children.length === 0) {
      const token = tokenOf(node, source)
      if (token !== undefined) push(token)
      return
    }
    for (const child of children) collect(child, tokens, inner)
  }

  function addUnit(node, name) {
    const tokens = { whole: [], own: [] }
    const inner = []
    collectTokens(node, tokens, inner)
    const { line } = source.getLineAndCharacterOfPosition(node.getStart(source))
    const unit = { name, place: `${path}:${line + 1}`, whole: hashOf(tokens.whole), own: hashOf(tokens.own), inner }
    units.push(unit)
    return unit
  }

  for (const statement of source.statements) {
    if (ts.isImportDeclaration(statement) || (ts.isExportDeclaration(statement) && statement.moduleSpecifier)) continue
    addUnit(statement, nameOf(statement))
  }
  return units
}

function isFunction(node) {
  return (
    ts.isFunctionDeclaration(node) ||
    ts.isFunctionExpression(node) ||
    ts.isArrowFunction(node) ||
    ts.isMethodDeclaration(node) ||
    ts.isConstructorDeclaration(node) ||
    ts.isGetAccessor(node) ||
    ts.isSetAccessor(node)
  )
}

/** Undefined for what Prettier sets by line length alone: trailing commas and the first `|` of a union. */
function tokenOf(node, source) {
  const text = node.getText(source)
  if (text === '' || node.kind === ts.SyntaxKind.ExportKeyword) return undefined
  if (ts.isIdentifier(node)) return canonicalName(node.text)
  if (ts.isStringLiteral(node)) return JSON.stringify(node.text)
  const siblings = node.parent.kind === ts.SyntaxKind.SyntaxList ? node.parent.getChildren(source) : syntaxListOf(node)
  if (node.kind === ts.SyntaxKind.CommaToken && siblings.at(-1) === node) return undefined
  if (node.kind === ts.SyntaxKind.BarToken && siblings[0] === node) return undefined
  return text
}

/** The list among the children of the parent that holds a token: `parent` skips lists. */
function syntaxListOf(node) {
  const lists = node.parent.getChildren().filter(({ kind }) => kind === ts.SyntaxKind.SyntaxList)
  return lists.map((list) => list.getChildren()).find((children) => children.includes(node)) ?? []
}

function nameOf(node) {
  if (ts.isVariableStatement(node)) {
    return node.declarationList.declarations.map(({ name }) => name.getText()).join(', ')
  }
  if (node.name) return node.name.getText()
  const { parent } = node
  if (parent && (ts.isVariableDeclaration(parent) || ts.isPropertyAssignment(parent))) return parent.name.getText()
  if (parent && ts.isCallExpression(parent)) {
    const [first] = parent.arguments
    const title = first && first !== node && ts.isStringLiteralLike(first) ? ` '${first.text}'` : ''
    return `(in ${parent.expression.getText().replace(/\s+/g, ' ').slice(0, 60)}${title})`
  }
  return `(${ts.SyntaxKind[node.kind]})`
}

/** The units that `others` lacks, without those that differ only because a function inside of them does. */
function difference(units, others) {
  const missingWhole = without(units, others, 'whole')
  const missingOwn = new Set(without(units, others, 'own'))
  const missing = new Set(missingWhole)
  return missingWhole.filter((unit) => missingOwn.has(unit) || !unit.inner.some((each) => missing.has(each)))
}

function without(units, others, hash) {
  const counts = new Map()
  for (const unit of others) counts.set(unit[hash], (counts.get(unit[hash]) ?? 0) + 1)
  return units.filter((unit) => {
    const count = counts.get(unit[hash]) ?? 0
    counts.set(unit[hash], count - 1)
    return count <= 0
  })
}

function hashOf(tokens) {
  return createHash('sha256').update(tokens.join('\0')).digest('hex')
}

function git(...args) {
  return execFileSync('git', args, { encoding: 'utf8', maxBuffer })
}
