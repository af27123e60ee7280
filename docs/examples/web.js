// A small web application for node: each request builds and drops a page of rows, in buffers outside of the heap.
const http = require("http");

http.createServer((request, response) => {
    const rows = [];
    for (let number = 0; number < 200; number++) rows.push(Buffer.alloc(100 + (number % 50) * 40, "x"));
    response.end(Buffer.concat(rows));
}).listen(Number(process.argv[2]), "127.0.0.1");
