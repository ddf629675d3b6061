// Runs the file service in a separate process, so that its memory can be measured. Prints the port.
import { startFileService } from './file-service.ts'

const { port } = await startFileService()
process.stdout.write(`${port}\n`)
// The parent ends the process by closing its standard input.
process.stdin.on('end', () => process.exit(0)).resume()
