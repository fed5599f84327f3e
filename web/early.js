/*
 * early.js - what must be known before anything is drawn, and the beginning of the rest.
 *
 * The headline that the page comes with is that of the overview of the server's own namespace: for
 * another address it is hidden. The rest, app.js, runs when that has been drawn: to compile it takes
 * a browser longer than to draw the headline. Nothing here may ask another process of the browser
 * and wait, as localStorage does.
 */
(function () {
    'use strict';
    var DRAWN_MS = 200; /* a page that is not seen is not drawn */
    if (location.hash !== '' && location.hash !== '#/') {
        document.documentElement.setAttribute('data-elsewhere', '');
    }
    function begin() {
        import('./app.js'); /* the same one when it is asked for again */
    }
    document.addEventListener('DOMContentLoaded', function () {
        setTimeout(begin, DRAWN_MS);
        requestAnimationFrame(function () {
            setTimeout(begin, 0);
        });
    });
})();
